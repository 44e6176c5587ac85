//! What is asked of one server. What the replies mean is said elsewhere.

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

/// Round trips that are timed, and readings of the clock of which the quickest counts.
const TRIPS: usize = 5;

/// What does not stand in INFO.
const SETTINGS: [&str; 4] = [
    "timeout",
    "save",
    "appendfsync",
    "stop-writes-on-bgsave-error",
];

/// The clock is compared over so long at least, and at most.
const CLOCK_PERIOD: Duration = Duration::from_secs(1);
const LONGEST_CLOCK_PERIOD: Duration = Duration::from_secs(5);

/// A server, and what is known of it.
pub(super) struct Checks<'a> {
    server: Server,
    redis: &'a RedisArgs,
    findings: Vec<Finding>,
    /// For the second look at its clock.
    clock: Option<(Connection, Reading)>,
}

impl<'a> Checks<'a> {
    /// Looks at everything but how fast its clock runs.
    pub(super) fn pay(server: Server, redis: &'a RedisArgs, names: &Names) -> Self {
        let mut checks = Self {
            server,
            redis,
            findings: Vec::new(),
            clock: None,
        };
        if let Err(error) = checks.look(names) {
            // It may have answered until then.
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

    /// Whether locks can be had there, as far as was looked.
    pub(super) fn grants_locks(&self) -> bool {
        let hinder = |finding: &Finding| {
            finding.is_failure() && [access::REACHABLE, "role", "rights"].contains(&finding.check)
        };
        !self.findings.iter().any(hinder)
    }

    fn look(&mut self, names: &Names) -> Result<(), ServerError> {
        let mut connection = self.server.connect()?;
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let sent = Moment::now();
            let reply = connection.run(&redis::cmd("PING"));
            trips.push(Moment::now().since(sent));
            if let Err(error) = reply
                && access::is_shut(&error)
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
        let mut questions = redis::pipe();
        for name in SETTINGS {
            questions.cmd("CONFIG").arg("GET").arg(name);
        }
        let settings = Facts::of_settings(connection.run_all(&questions)?);
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
        self.look_at_rights(&mut connection, names)?;
        self.look_at_clock(connection)
    }

    fn look_at_rights(
        &mut self,
        connection: &mut Connection,
        names: &Names,
    ) -> Result<(), ServerError> {
        let needed = || {
            RIGHTS
                .iter()
                .filter(|right| is_needed(right.when, self.redis))
        };
        let mut questions = Pipeline::new();
        for right in needed().filter(|right| !right.subscribes()) {
            questions.add_command(right.command(names));
        }
        let mut replies = connection.run_all(&questions)?.into_iter();
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
        self.findings.extend(rights::looking(&answers));
        Ok(())
    }

    fn look_at_clock(&mut self, mut connection: Connection) -> Result<(), ServerError> {
        match quickest_reading(&mut connection)? {
            Ok(reading) => {
                self.findings.push(clock::offset(&reading));
                self.clock = Some((connection, reading));
            }
            Err(why) => self.findings.push(clock::rate_unknown(&why)),
        }
        Ok(())
    }

    /// Looks at the clock once more, when enough time has passed since the first look.
    pub(super) fn leave(mut self) -> Vec<Finding> {
        if let Some((mut connection, first)) = self.clock.take() {
            self.findings.push(compare_clocks(&mut connection, &first));
        }
        self.findings
    }
}

/// The reply, be it an error reply.
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
        When::Always => true,
        When::Database => false,
        When::Sentinel => redis.sentinel.is_some(),
        When::Cluster | When::Shards => redis.cluster,
        When::Replicas => redis.min_replicas.is_some(),
        When::Looking { in_clusters } => in_clusters || !redis.cluster,
    }
}

fn compare_clocks(connection: &mut Connection, first: &Reading) -> Finding {
    let mut period = CLOCK_PERIOD;
    loop {
        rest_until(first.received.after(period));
        match quickest_reading(connection) {
            Ok(Ok(second)) => {
                if let Some(finding) = clock::rate(first, &second) {
                    return finding;
                }
            }
            Ok(Err(why)) => return clock::rate_unknown(&why),
            Err(_) => return clock::rate_unknown("it did not answer any more"),
        }
        if period >= LONGEST_CLOCK_PERIOD {
            return clock::rate_unknown("its answers take too long and too unequally to tell");
        }
        period = (period * 2).min(LONGEST_CLOCK_PERIOD);
    }
}

fn rest_until(moment: Moment) {
    while !moment.is_past() {
        // Nobody ever sends there.
        let _ = crossbeam_channel::never::<()>().recv_timeout(moment.left());
    }
}

/// Of several, the one that leaves least in doubt; or why there is none.
fn quickest_reading(connection: &mut Connection) -> Result<Result<Reading, String>, ServerError> {
    let mut quickest: Option<Reading> = None;
    for _ in 0..TRIPS {
        let sent = Moment::now();
        let reply = ask(connection, &redis::cmd("TIME"))?;
        let odd = |code: Option<&str>| format!("the answer to TIME is {}", code.unwrap_or("odd"));
        match reply.map(|reply| Reading::of(sent, reply)) {
            Ok(Some(reading)) if quickest.is_none_or(|best| reading.trip() < best.trip()) => {
                quickest = Some(reading);
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Err(odd(None))),
            Err(error) => return Ok(Err(odd(error.cause.code()))),
        }
    }
    Ok(quickest.ok_or_else(|| "TIME was not asked".into()))
}
