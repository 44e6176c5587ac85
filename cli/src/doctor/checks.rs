//! Sends the commands of all checks to one server. Other files judge the replies.

use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::access;
use super::clock::{self, Reading};
use super::facts::Facts;
use super::finding::Finding;
use super::rights::{self, Answer, Names, RIGHTS, Right, When};
use super::{role, storage};
use crate::args::RedisArgs;
use crate::clock::Moment;
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

/// The findings about one server.
pub(super) struct Checks<'a> {
    server: Server,
    redis: &'a RedisArgs,
    findings: Vec<Finding>,
    /// For the second reading of its clock.
    clock: Option<(Connection, Reading)>,
}

impl<'a> Checks<'a> {
    /// Runs all checks except that of the speed of the clock, which needs some time between.
    pub(super) fn begin(server: Server, redis: &'a RedisArgs, names: &Names) -> Self {
        let mut checks = Self {
            server,
            redis,
            findings: Vec::new(),
            clock: None,
        };
        if let Err(error) = checks.check(names) {
            // It may have replied until then.
            checks
                .findings
                .retain(|known| known.check != access::REACHABLE);
            checks.findings.insert(0, access::out_of_reach(&error));
        }
        checks
    }

    pub(super) fn name(&self) -> &str {
        self.server.name()
    }

    /// True if no finding prevents locks.
    pub(super) fn grants_locks(&self) -> bool {
        let hinder = |finding: &Finding| {
            finding.is_failure() && [access::REACHABLE, "role", "rights"].contains(&finding.check)
        };
        !self.findings.iter().any(hinder)
    }

    fn check(&mut self, names: &Names) -> Result<(), ServerError> {
        let mut connection = self.server.connect()?;
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let sent = Moment::now();
            let reply = connection.run(&redis::cmd("PING"));
            trips.push(Moment::now().since(sent));
            if let Err(error) = reply
                && access::is_unusable(&error)
            {
                return Err(error);
            }
        }
        self.findings
            .push(Finding::ok(access::REACHABLE, "logged in"));
        let info = Facts::of_info("INFO", ask(&mut connection, &redis::cmd("INFO"))?);
        if role::is_sentinel(&info) {
            self.findings.push(role::role(&info, self.redis.cluster));
            return Ok(());
        }
        let mut commands = redis::pipe();
        for name in SETTINGS {
            commands.cmd("CONFIG").arg("GET").arg(name);
        }
        let settings = Facts::of_settings(connection.run_all(&commands)?);
        self.findings.extend([
            storage::version(&info),
            storage::eviction(&info),
            storage::memory(&info),
            storage::persistence(&info, &settings),
            role::role(&info, self.redis.cluster),
            role::replicas(&info, self.redis.min_replicas),
        ]);
        if self.redis.cluster {
            let reply = ask(&mut connection, redis::cmd("CLUSTER").arg("INFO"))?;
            let info = Facts::of_info("CLUSTER INFO", reply);
            self.findings.push(role::cluster(&info));
        }
        self.findings.extend([
            access::clients(&info),
            access::idle(&settings),
            access::latency(trips),
        ]);
        self.check_rights(&mut connection, names)?;
        self.read_clock(connection)
    }

    fn check_rights(
        &mut self,
        connection: &mut Connection,
        names: &Names,
    ) -> Result<(), ServerError> {
        let needed = || {
            RIGHTS
                .iter()
                .filter(|right| is_needed(right.when, self.redis))
        };
        let mut commands = Pipeline::new();
        for right in needed().filter(|right| !right.subscribes()) {
            commands.add_command(right.command(names));
        }
        let mut replies = connection.run_all(&commands)?.into_iter();
        let mut answers: Vec<(&Right, Answer)> = Vec::new();
        for right in needed() {
            let reply = if right.subscribes() {
                let mut connection = self.server.connect()?;
                Some(ask(&mut connection, &right.command(names))?)
            } else {
                replies.next()
            };
            answers.extend(reply.map(|reply| (right, rights::answer(&reply))));
        }
        self.findings.push(rights::verdict(&answers, names));
        self.findings.extend(rights::fencing(&answers, names));
        self.findings.extend(rights::kinds(&answers, names));
        self.findings.extend(rights::looking(&answers));
        self.findings.extend(rights::holders(&answers));
        Ok(())
    }

    fn read_clock(&mut self, mut connection: Connection) -> Result<(), ServerError> {
        match quickest_reading(&mut connection)? {
            Ok(reading) => {
                self.findings.push(clock::offset(&reading));
                self.clock = Some((connection, reading));
            }
            Err(why) => self.findings.push(clock::rate_unknown(&why)),
        }
        Ok(())
    }

    /// Reads the clock again, when enough time has passed since the first reading.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        if let Some((mut connection, first)) = self.clock.take() {
            self.findings.push(compare_clocks(&mut connection, &first));
        }
        self.findings
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

fn is_needed(when: When, redis: &RedisArgs) -> bool {
    match when {
        When::Always | When::Kinds(_) | When::Holders | When::Looking => true,
        When::Database => false,
        When::Sentinel => redis.sentinel.is_some(),
        When::Cluster | When::Shards => redis.cluster,
        When::Replicas => redis.min_replicas.is_some(),
    }
}

fn compare_clocks(connection: &mut Connection, first: &Reading) -> Finding {
    let mut period = CLOCK_PERIOD;
    loop {
        sleep_until(first.received.after(period));
        match quickest_reading(connection) {
            Ok(Ok(second)) => {
                if let Some(finding) = clock::rate(first, &second) {
                    return finding;
                }
            }
            Ok(Err(why)) => return clock::rate_unknown(&why),
            Err(_) => return clock::rate_unknown("it did not reply any more"),
        }
        if period >= LONGEST_CLOCK_PERIOD {
            return clock::rate_unknown("its replies take too long, and their times vary too much");
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
    let mut quickest: Option<Reading> = None;
    for _ in 0..TRIPS {
        let sent = Moment::now();
        let reply = ask(connection, &redis::cmd("TIME"))?;
        let unexpected =
            |code: Option<&str>| format!("the reply to TIME is {}", code.unwrap_or("unexpected"));
        match reply.map(|reply| Reading::of(sent, reply)) {
            Ok(Some(reading)) if quickest.is_none_or(|best| reading.trip() < best.trip()) => {
                quickest = Some(reading);
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Err(unexpected(None))),
            Err(error) => return Ok(Err(unexpected(error.cause.code()))),
        }
    }
    Ok(quickest.ok_or_else(|| "TIME was not read".into()))
}
