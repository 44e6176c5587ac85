//! `leasehold doctor`: looks at the servers for what hurts locks.

mod access;
mod checks;
mod clock;
mod facts;
mod finding;
mod report;
mod rights;
mod role;
mod storage;
mod trial;

use std::process::ExitCode;
use std::time::Duration;

use uuid::Uuid;

use super::args::{DoctorArgs, RedisArgs};
use super::outcome::{Result, UNAVAILABLE};
use super::{connect, output};
use checks::Checks;
use leasehold::LockClient;
use leasehold::admin::{self, LockKeys};
use report::{Line, Style};
use rights::Names;

/// Something failed.
const FAILED: u8 = 1;

/// How long the lock that is tried can stay if this program dies meanwhile.
const LEASE: Duration = Duration::from_secs(10);

pub(super) fn run(redis: &RedisArgs, args: &DoctorArgs, quiet: bool) -> Result<ExitCode> {
    let clients = connect::clients(redis, Some(LEASE))?;
    for client in &clients {
        admin::check_name(client, &args.key)?;
    }
    // All are begun before the first is ended: their clocks are compared over the same second.
    let exams: Vec<Exam<'_>> = clients
        .iter()
        .map(|client| Exam::begin(client, redis, &args.key))
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
    checked: Vec<Checks<'a>>,
    /// What is said of the client as a whole.
    rest: Option<Line>,
}

impl<'a> Exam<'a> {
    fn begin(client: &'a LockClient, redis: &'a RedisArgs, lock: &str) -> Self {
        let servers = match admin::servers(client) {
            Ok(servers) => servers,
            Err(error) => {
                let rest = Line {
                    server: admin::deployment(client),
                    finding: access::nowhere(error),
                };
                return Self {
                    checked: Vec::new(),
                    rest: Some(rest),
                };
            }
        };
        // As a client names its own channel.
        let control = format!("leasehold:{}", Uuid::new_v4());
        let names = Names::of(LockKeys::new(client, lock), LockKeys::new(client, &control));
        let checked: Vec<Checks<'_>> = servers
            .into_iter()
            .map(|server| Checks::pay(server, redis, &names))
            .collect();
        // Never where a right is missing: what is taken then may not be given back.
        let grants_locks = checked.iter().all(Checks::grants_locks);
        let rest = grants_locks.then(|| Line {
            server: home(client, lock),
            finding: trial::lock(client, lock),
        });
        Self { checked, rest }
    }

    fn end(self) -> Vec<Line> {
        let mut lines = Vec::new();
        for checks in self.checked {
            let server = checks.name().to_owned();
            lines.extend(checks.leave().into_iter().map(|finding| Line {
                server: server.clone(),
                finding,
            }));
        }
        lines.extend(self.rest);
        lines
    }
}

/// The server that has the lock, or else the deployment.
fn home(client: &LockClient, lock: &str) -> String {
    let server = admin::server_of(client, lock);
    server.map_or_else(|_| admin::deployment(client), |server| server.name().into())
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
