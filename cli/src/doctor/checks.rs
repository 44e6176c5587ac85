//! Sends the commands of all checks to one server. Other files judge the replies.

use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::clock::{self, Reading};
use super::facts::Facts;
use super::finding::{Finding, Line, Verdict};
use super::rights::{self, Names, RIGHTS};
use super::{reach, server, storage};
use crate::args::RedisArgs;
use leasehold::__Moment as Moment;
use leasehold::admin::{Connection, Server, ServerError};

/// How many round trips are measured, and how often the clock is read. The quickest reading counts.
const TRIPS: usize = 5;

/// Settings that INFO does not contain.
const SETTINGS: [&str; 4] = [
    "timeout",
    "save",
    "appendfsync",
    "stop-writes-on-bgsave-error",
];

/// The shortest and the longest time over which the clocks are compared.
const CLOCK_PERIOD: Duration = Duration::from_secs(1);
const LONGEST_CLOCK_PERIOD: Duration = Duration::from_secs(5);

/// The checks of the login, of the role, and of the speed of the clock.
pub(super) const REACHABLE: &str = "reachable";
const ROLE: &str = "role";
const CLOCK_RATE: &str = "clock-rate";

/// The findings about one server.
pub(super) struct Checks<'a> {
    server: Server,
    redis: &'a RedisArgs,
    lines: Vec<Line>,
    /// For the second reading of its clock.
    clock: Option<(Connection, Reading)>,
}

impl<'a> Checks<'a> {
    /// Runs all checks except that of the speed of the clock, which needs some time between.
    pub(super) fn begin(server: Server, redis: &'a RedisArgs, names: &Names) -> Self {
        let mut checks = Self {
            server,
            redis,
            lines: Vec::new(),
            clock: None,
        };
        if let Err(error) = checks.check(names) {
            // It may have replied until then.
            checks.lines.retain(|line| line.check != REACHABLE);
            checks.add(REACHABLE, reach::out_of_reach(&error));
            checks.lines.rotate_right(1);
        }
        checks
    }

    /// True if no finding prevents locks.
    pub(super) fn grants_locks(&self) -> bool {
        let hinders = |line: &Line| [REACHABLE, ROLE, RIGHTS].contains(&line.check);
        !self
            .lines
            .iter()
            .any(|line| line.is_failure() && hinders(line))
    }

    fn add(&mut self, check: &'static str, finding: Finding) {
        self.lines.push(Line {
            server: self.server.name().into(),
            check,
            finding,
        });
    }

    /// Adds what checks found in these facts.
    fn judge<const N: usize>(
        &mut self,
        facts: &Facts,
        findings: [(&'static str, Option<Finding>); N],
    ) {
        for (check, finding) in findings {
            let unknown = || Verdict::Unknown.of(facts.why_not());
            self.add(check, finding.unwrap_or_else(unknown));
        }
    }

    fn check(&mut self, names: &Names) -> Result<(), ServerError> {
        let mut connection = self.server.connect()?;
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let sent = Moment::now();
            let reply = connection.run(&redis::cmd("PING"));
            trips.push(Moment::now().since(sent));
            if let Err(error) = reply
                && reach::is_unusable(&error)
            {
                return Err(error);
            }
        }
        self.add(REACHABLE, Verdict::Ok.of("logged in"));
        let info = Facts::of_info("INFO", ask(&mut connection, &redis::cmd("INFO"))?);
        let in_cluster = self.redis.cluster;
        let role = (ROLE, server::role(&info, in_cluster));
        if server::is_sentinel(&info) {
            self.judge(&info, [role]);
            return Ok(());
        }
        let mut commands = redis::pipe();
        for name in SETTINGS {
            commands.cmd("CONFIG").arg("GET").arg(name);
        }
        let settings = Facts::of_settings(connection.run_all(&commands)?);
        let findings = [
            ("version", server::version(&info)),
            ("eviction", storage::eviction(&info)),
            ("memory", storage::memory(&info)),
            ("persistence", storage::persistence(&info, &settings)),
            role,
            ("replicas", server::replicas(&info, self.redis.min_replicas)),
        ];
        self.judge(&info, findings);
        if in_cluster {
            let reply = ask(&mut connection, redis::cmd("CLUSTER").arg("INFO"))?;
            let info = Facts::of_info("CLUSTER INFO", reply);
            self.judge(&info, [("cluster", server::cluster(&info))]);
        }
        self.judge(&info, [("clients", server::clients(&info))]);
        self.judge(&settings, [("timeout", server::idle(&settings))]);
        self.add("latency", reach::latency(trips));
        self.check_rights(&mut connection, names)?;
        match quickest_reading(&mut connection)? {
            Ok(reading) => {
                self.add("clock", clock::offset(&reading));
                self.clock = Some((connection, reading));
            }
            Err(why) => self.add(CLOCK_RATE, Verdict::Unknown.of(why)),
        }
        Ok(())
    }

    fn check_rights(
        &mut self,
        connection: &mut Connection,
        names: &Names,
    ) -> Result<(), ServerError> {
        let needed = || rights::rights().filter(|right| right.is_needed(self.redis));
        let mut commands = Pipeline::new();
        for right in needed().filter(|right| !right.subscribes()) {
            commands.add_command(right.command(names));
        }
        let mut replies = connection.run_all(&commands)?.into_iter();
        let mut answers = Vec::new();
        for right in needed() {
            let reply = if right.subscribes() {
                Some(ask(&mut self.server.connect()?, &right.command(names))?)
            } else {
                replies.next()
            };
            answers.extend(reply.map(|reply| (right, rights::answer(&reply))));
        }
        for (check, finding) in rights::findings(&answers, names) {
            self.add(check, finding);
        }
        Ok(())
    }

    /// Reads the clock again, when enough time has passed since the first reading.
    pub(super) fn finish(mut self) -> Vec<Line> {
        if let Some((mut connection, first)) = self.clock.take() {
            let finding = compare_clocks(&mut connection, &first);
            self.add(
                CLOCK_RATE,
                finding.unwrap_or_else(|why| Verdict::Unknown.of(why)),
            );
        }
        self.lines
    }
}

/// The reply or error reply. An error of the connection is the outer error.
fn ask(
    connection: &mut Connection,
    command: &Cmd,
) -> Result<Result<Value, ServerError>, ServerError> {
    match connection.run(command) {
        Err(error) if !error.is_reply() => Err(error),
        reply => Ok(reply),
    }
}

/// Compares the speed of the clocks, or says why that is not possible.
fn compare_clocks(connection: &mut Connection, first: &Reading) -> Result<Finding, String> {
    let mut period = CLOCK_PERIOD;
    loop {
        sleep_until(first.received.after(period));
        let second = quickest_reading(connection).map_err(|_| "it did not reply any more")??;
        if let Some(finding) = clock::rate(first, &second) {
            return Ok(finding);
        }
        if period >= LONGEST_CLOCK_PERIOD {
            return Err("its replies take too long, and their times vary too much".into());
        }
        period = (period * 2).min(LONGEST_CLOCK_PERIOD);
    }
}

fn sleep_until(moment: Moment) {
    while !moment.is_past() {
        // Nothing is ever sent on this channel.
        let _ = crossbeam_channel::never::<()>().recv_timeout(moment.left());
    }
}

/// The reading with the shortest round trip, or why there is none.
fn quickest_reading(connection: &mut Connection) -> Result<Result<Reading, String>, ServerError> {
    let mut readings = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let sent = Moment::now();
        let reply = ask(connection, &redis::cmd("TIME"))?;
        let code = reply.as_ref().err().and_then(|error| error.cause.code());
        let unexpected = format!("the reply to TIME is {}", code.unwrap_or("unexpected"));
        match reply.ok().and_then(|reply| Reading::of(sent, reply)) {
            Some(reading) => readings.push(reading),
            None => return Ok(Err(unexpected)),
        }
    }
    let quickest = readings.into_iter().min_by_key(Reading::trip);
    Ok(quickest.ok_or_else(|| "TIME was not read".into()))
}
