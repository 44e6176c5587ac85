//! `leasehold doctor`: checks the servers for problems with locks.

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

use super::args::{Args, DoctorArgs, RedisArgs};
use super::outcome::{Result, UNAVAILABLE};
use super::{connect, output};
use checks::Checks;
use leasehold::LockClient;
use leasehold::admin::{self, LockKeys};
use report::{Line, Style};
use rights::Names;

/// The exit status if a check failed.
const FAILED: u8 = 1;

/// The lease of the lock that is acquired as a test, in case this program dies meanwhile.
const LEASE: Duration = Duration::from_secs(10);

pub(super) fn run(general: &Args, args: &DoctorArgs) -> Result<ExitCode> {
    let redis = &general.redis;
    let clients = connect::clients(redis, Some(LEASE))?;
    for client in &clients {
        admin::check_name(client, &args.key)?;
    }
    // All begin before the first one ends, so that their clocks are compared over the same second.
    let all: Vec<ClientChecks<'_>> = clients
        .iter()
        .map(|client| ClientChecks::begin(client, redis, &args.key))
        .collect();
    let lines: Vec<Line> = all.into_iter().flat_map(ClientChecks::end).collect();
    let style = Style {
        json: args.json,
        quiet: general.quiet,
        colors: !args.json && output::has_colors(general.color),
    };
    output::print(report::text(&lines, style).as_bytes())?;
    Ok(status(&lines))
}

/// The checks of the servers of one client.
struct ClientChecks<'a> {
    checked: Vec<Checks<'a>>,
    /// The finding about the client as a whole.
    rest: Option<Line>,
}

impl<'a> ClientChecks<'a> {
    fn begin(client: &'a LockClient, redis: &'a RedisArgs, lock: &str) -> Self {
        let servers = match admin::servers(client) {
            Ok(servers) => servers,
            Err(error) => {
                let rest = Line {
                    server: admin::deployment(client),
                    finding: access::no_route(error),
                };
                return Self {
                    checked: Vec::new(),
                    rest: Some(rest),
                };
            }
        };
        // Like the name of a client's own channel.
        let control = format!("leasehold:{}", Uuid::new_v4());
        let names = Names::of(LockKeys::new(client, lock), LockKeys::new(client, &control));
        let checked: Vec<Checks<'_>> = servers
            .into_iter()
            .map(|server| Checks::begin(server, redis, &names))
            .collect();
        // Not if a permission is missing: a lock that is acquired then may not be released.
        let grants_locks = checked.iter().all(Checks::grants_locks);
        let rest = grants_locks.then(|| Line {
            server: server_name(client, lock),
            finding: trial::lock(client, lock, LEASE),
        });
        Self { checked, rest }
    }

    fn end(self) -> Vec<Line> {
        let mut lines = Vec::new();
        for checks in self.checked {
            let server = checks.name().to_owned();
            lines.extend(checks.finish().into_iter().map(|finding| Line {
                server: server.clone(),
                finding,
            }));
        }
        lines.extend(self.rest);
        lines
    }
}

/// The server that has the lock, or else the deployment.
fn server_name(client: &LockClient, lock: &str) -> String {
    let server = admin::server_of(client, lock);
    server.map_or_else(|_| admin::deployment(client), |server| server.name().into())
}

/// 0 if no check failed, 1 if one failed, 69 if no server could be used.
fn status(lines: &[Line]) -> ExitCode {
    let is_unusable =
        |line: &Line| line.finding.check == access::REACHABLE && line.finding.is_failure();
    let servers: Vec<&Line> = lines
        .iter()
        .filter(|line| line.finding.check == access::REACHABLE)
        .collect();
    if servers.iter().all(|line| is_unusable(line)) {
        ExitCode::from(UNAVAILABLE)
    } else if lines.iter().any(|line| line.finding.is_failure()) {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}
