//! `leasehold doctor`: looks at the servers for what hurts locks.

mod access;
mod clock;
mod facts;
mod finding;
mod report;
mod rights;
mod round;
mod standing;
mod upkeep;
mod visit;

use std::process::ExitCode;
use std::time::Duration;

use super::args::{DoctorArgs, RedisArgs};
use super::outcome::{Result, UNAVAILABLE};
use super::{connect, output};
use crate::base::key::LockKey;
use crate::client::LockClient;
use report::{Line, Style};
use rights::Names;
use visit::Visit;

/// Something failed.
const FAILED: u8 = 1;

/// How long the lock that is tried can stay if this program dies meanwhile.
const LEASE: Duration = Duration::from_secs(10);

pub(super) fn run(redis: &RedisArgs, args: &DoctorArgs, quiet: bool) -> Result<ExitCode> {
    let clients = connect::clients(redis, Some(LEASE))?;
    let lock = LockKey::new("", &args.key);
    lock.check()?;
    if redis.cluster {
        lock.check_one_slot()?;
    }
    // All are begun before the first is ended: their clocks are compared over the same second.
    let exams: Vec<Exam<'_>> = clients
        .iter()
        .map(|client| Exam::begin(client, redis, &lock))
        .collect();
    let lines: Vec<Line> = exams.into_iter().flat_map(Exam::end).collect();
    let style = Style {
        json: args.json,
        quiet,
    };
    output::print(report::text(&lines, style).as_bytes())?;
    Ok(status(&lines))
}

/// Everything about the servers of one client.
struct Exam<'a> {
    visits: Vec<Visit<'a>>,
    /// What is said of the client as a whole.
    rest: Option<Line>,
}

impl<'a> Exam<'a> {
    fn begin(client: &'a LockClient, redis: &'a RedisArgs, lock: &LockKey) -> Self {
        let core = &client.core;
        let line = |finding| Line {
            server: core.redis.name(lock).to_string(),
            finding,
        };
        let servers = match core.redis.servers() {
            Ok(servers) => servers,
            Err(route_error) => {
                return Self {
                    visits: Vec::new(),
                    rest: Some(line(access::route_error(route_error))),
                };
            }
        };
        let control = LockKey::new("", &format!("leasehold:{}", core.id));
        let names = Names::of(lock, &control);
        let visits: Vec<Visit<'_>> = servers
            .into_iter()
            .map(|server| Visit::pay(&core.redis, server, redis, &names))
            .collect();
        // Never where a right is missing: what is taken then may not be given back.
        let round = visits
            .iter()
            .all(Visit::grants_locks)
            .then(|| round::lock(client, lock.name()));
        Self {
            visits,
            rest: round.map(line),
        }
    }

    fn end(self) -> Vec<Line> {
        let mut lines = Vec::new();
        for visit in self.visits {
            let server = visit.name().to_owned();
            lines.extend(visit.leave().into_iter().map(|finding| Line {
                server: server.clone(),
                finding,
            }));
        }
        lines.extend(self.rest);
        lines
    }
}

/// 0 if nothing failed, 1 if something did, 69 if no server let us in.
fn status(lines: &[Line]) -> ExitCode {
    let shut = |line: &Line| line.finding.check == access::REACHABLE && line.finding.is_failure();
    let servers: Vec<&Line> = lines
        .iter()
        .filter(|line| line.finding.check == access::REACHABLE)
        .collect();
    if servers.iter().all(|line| shut(line)) {
        ExitCode::from(UNAVAILABLE)
    } else if lines.iter().any(|line| line.finding.is_failure()) {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}
