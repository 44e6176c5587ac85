//! What is asked of one server. What the replies mean is said elsewhere.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisResult, Value};

use super::access;
use super::clock::{self, Reading};
use super::facts::Facts;
use super::finding::Finding;
use super::rights::{self, Answer, Names, RIGHTS, Right, When};
use super::{standing, upkeep};
use crate::base::clock::Moment;
use crate::cli::args::RedisArgs;
use crate::request::{RedisClient, Talk};
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

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
pub(super) struct Visit<'a> {
    connections: &'a RedisClient,
    server: Arc<Server>,
    redis: &'a RedisArgs,
    findings: Vec<Finding>,
    /// For the second look at its clock.
    clock: Option<(Talk, Reading)>,
}

impl<'a> Visit<'a> {
    /// Looks at everything but how fast its clock runs.
    pub(super) fn pay(
        connections: &'a RedisClient,
        server: Arc<Server>,
        redis: &'a RedisArgs,
        names: &Names,
    ) -> Self {
        let mut visit = Self {
            connections,
            server,
            redis,
            findings: Vec::new(),
            clock: None,
        };
        if let Err(error) = visit.look(names) {
            // It may have answered until then.
            visit
                .findings
                .retain(|known| known.check != access::REACHABLE);
            visit.findings.insert(0, access::out_of_reach(&error));
        }
        visit
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

    fn look(&mut self, names: &Names) -> RedisResult<()> {
        let mut talk = self.connections.talk(&self.server)?;
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let sent = Moment::now();
            let reply = talk.ask(&redis::cmd("PING"));
            trips.push(Moment::now().since(sent));
            if let Err(error) = reply
                && access::is_shut(&error)
            {
                return Err(error);
            }
        }
        self.findings
            .push(Finding::ok(access::REACHABLE, "logged in"));
        let info = Facts::of_info("INFO", ask(&mut talk, &redis::cmd("INFO"))?);
        if standing::is_sentinel(&info) {
            self.findings
                .push(standing::role(&info, self.redis.cluster));
            return Ok(());
        }
        let mut questions = redis::pipe();
        for name in SETTINGS {
            questions.cmd("CONFIG").arg("GET").arg(name);
        }
        let settings = Facts::of_settings(talk.ask_all(&questions)?);
        self.findings.extend([
            upkeep::version(&info),
            upkeep::eviction(&info),
            upkeep::memory(&info),
            upkeep::persistence(&info, &settings),
            standing::role(&info, self.redis.cluster),
            standing::replicas(&info, self.redis.min_replicas),
        ]);
        if self.redis.cluster {
            let reply = ask(&mut talk, redis::cmd("CLUSTER").arg("INFO"))?;
            let info = Facts::of_info("CLUSTER INFO", reply);
            self.findings.push(standing::cluster(&info));
        }
        self.findings.extend([
            access::clients(&info),
            access::idle(&settings),
            access::latency(trips),
        ]);
        self.look_at_rights(&mut talk, names)?;
        self.look_at_clock(talk)
    }

    fn look_at_rights(&mut self, talk: &mut Talk, names: &Names) -> RedisResult<()> {
        let needed = || {
            RIGHTS
                .iter()
                .filter(|right| is_needed(right.when, self.redis))
        };
        let mut questions = Pipeline::new();
        for right in needed().filter(|right| !right.subscribes()) {
            questions.add_command(right.command(names));
        }
        let mut replies = talk.ask_all(&questions)?.into_iter();
        let mut answers: Vec<(&Right, Answer)> = Vec::new();
        for right in needed() {
            let reply = if right.subscribes() {
                let mut talk = self.connections.talk(&self.server)?;
                Some(ask(&mut talk, &right.command(names))?)
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

    fn look_at_clock(&mut self, mut talk: Talk) -> RedisResult<()> {
        match quickest_reading(&mut talk)? {
            Ok(reading) => {
                self.findings.push(clock::offset(&reading));
                self.clock = Some((talk, reading));
            }
            Err(why) => self.findings.push(clock::rate_unknown(&why)),
        }
        Ok(())
    }

    /// Looks at the clock once more, when enough time has passed since the first look.
    pub(super) fn leave(mut self) -> Vec<Finding> {
        if let Some((mut talk, first)) = self.clock.take() {
            self.findings.push(compare_clocks(&mut talk, &first));
        }
        self.findings
    }
}

/// The reply, be it an error reply.
fn ask(talk: &mut Talk, command: &Cmd) -> RedisResult<RedisResult<Value>> {
    match talk.ask(command) {
        Err(error) if !RetryAction::is_reply(&error) => Err(error),
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

fn compare_clocks(talk: &mut Talk, first: &Reading) -> Finding {
    let mut period = CLOCK_PERIOD;
    loop {
        rest_until(first.received.after(period));
        match quickest_reading(talk) {
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
fn quickest_reading(talk: &mut Talk) -> RedisResult<Result<Reading, String>> {
    let mut quickest: Option<Reading> = None;
    for _ in 0..TRIPS {
        let sent = Moment::now();
        let reply = ask(talk, &redis::cmd("TIME"))?;
        match Reading::of(sent, reply) {
            Ok(reading) if quickest.is_none_or(|best| reading.trip() < best.trip()) => {
                quickest = Some(reading);
            }
            Ok(_) => {}
            Err(error) => {
                return Ok(Err(format!(
                    "the answer to TIME is {}",
                    error.code().unwrap_or("odd")
                )));
            }
        }
    }
    Ok(quickest.ok_or_else(|| "TIME was not asked".into()))
}
