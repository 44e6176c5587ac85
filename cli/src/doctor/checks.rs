//! Sends the commands of all checks to one server. Other files judge the replies.

use redis::Pipeline;

use super::clock::{self, Reading};
use super::facts::Facts;
use super::finding::{Finding, Line, Verdict};
use super::rights::{self, RIGHTS, Right};
use super::{reach, server, storage};
use crate::args::RedisArgs;
use crate::probe::ask;
use leasehold::__Moment as Moment;
use leasehold::admin::{Connection, Server, ServerError};

/// How many round trips are measured.
const TRIPS: usize = 5;

/// Settings that INFO does not contain.
const SETTINGS: [&str; 4] = [
    "timeout",
    "save",
    "appendfsync",
    "stop-writes-on-bgsave-error",
];

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
    pub(super) fn begin(server: Server, redis: &'a RedisArgs, rights: Vec<Right>) -> Self {
        let mut checks = Self {
            server,
            redis,
            lines: Vec::new(),
            clock: None,
        };
        if let Err(error) = checks.check(rights) {
            // It may have replied until then.
            checks.lines.retain(|line| line.check != REACHABLE);
            checks.add(REACHABLE, reach::out_of_reach(&error));
            checks.lines.rotate_right(1);
        }
        checks
    }

    /// True if no finding prevents locks.
    pub(super) fn grants_locks(&self) -> bool {
        let checks = [REACHABLE, ROLE, RIGHTS];
        let hinders = |line: &Line| line.is_failure() && checks.contains(&line.check);
        !self.lines.iter().any(hinders)
    }

    fn add(&mut self, check: &'static str, finding: Finding) {
        let server = self.server.name().into();
        self.lines.push(Line {
            server,
            check,
            finding,
        });
    }

    /// Adds what a check found in these facts.
    fn judge(&mut self, facts: &Facts, check: &'static str, finding: Option<Finding>) {
        let unknown = || Verdict::Unknown.of(&*facts.why_not);
        self.add(check, finding.unwrap_or_else(unknown));
    }

    fn check(&mut self, rights: Vec<Right>) -> Result<(), ServerError> {
        let mut connection = self.server.connect()?;
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let sent = Moment::now();
            let reply = connection.run(&redis::cmd("PING"));
            trips.push(Moment::now().since(sent));
            if let Some(error) = reply.err().filter(reach::is_unusable) {
                return Err(error);
            }
        }
        self.add(REACHABLE, Verdict::Ok.of("logged in"));
        let options = self.redis;
        let info = Facts::of("INFO", [ask(&mut connection, &redis::cmd("INFO"))?]);
        let role = server::role(&info, options.cluster);
        if server::is_sentinel(&info) {
            self.judge(&info, ROLE, role);
            return Ok(());
        }
        let mut commands = redis::pipe();
        for name in SETTINGS {
            commands.cmd("CONFIG").arg("GET").arg(name);
        }
        let settings = Facts::of("CONFIG GET", connection.run_all(&commands)?);
        let replicas = server::replicas(&info, options.min_replicas);
        for (check, finding) in [
            ("version", server::version(&info)),
            ("eviction", storage::eviction(&info)),
            ("memory", storage::memory(&info)),
            ("persistence", storage::persistence(&info, &settings)),
            (ROLE, role),
            ("replicas", replicas),
        ] {
            self.judge(&info, check, finding);
        }
        if options.cluster {
            let reply = ask(&mut connection, redis::cmd("CLUSTER").arg("INFO"))?;
            let cluster = Facts::of("CLUSTER INFO", [reply]);
            self.judge(&cluster, "cluster", server::cluster(&cluster));
        }
        self.judge(&info, "clients", server::clients(&info));
        self.judge(&settings, "timeout", server::idle(&settings));
        self.add("latency", reach::latency(trips));
        self.check_rights(&mut connection, rights)?;
        match Reading::quickest(&mut connection)? {
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
        mut rights: Vec<Right>,
    ) -> Result<(), ServerError> {
        rights.retain(|right| right.is_needed(self.redis));
        let mut commands = Pipeline::new();
        for right in rights.iter().filter(|right| !right.subscribes()) {
            commands.add_command(right.command.clone());
        }
        let mut replies = connection.run_all(&commands)?.into_iter();
        let mut answers = Vec::new();
        for right in rights {
            let reply = if right.subscribes() {
                Some(ask(&mut self.server.connect()?, &right.command)?)
            } else {
                replies.next()
            };
            answers.extend(reply.map(|reply| (right, reply)));
        }
        for (check, finding) in rights::findings(&answers) {
            self.add(check, finding);
        }
        Ok(())
    }

    /// Reads the clock again, when enough time has passed since the first reading.
    pub(super) fn finish(mut self) -> Vec<Line> {
        if let Some((mut connection, first)) = self.clock.take() {
            let finding = clock::compare(&mut connection, &first);
            let unknown = |why: String| Verdict::Unknown.of(why);
            self.add(CLOCK_RATE, finding.unwrap_or_else(unknown));
        }
        self.lines
    }
}
