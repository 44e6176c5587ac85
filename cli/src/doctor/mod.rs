//! `leasehold doctor`: checks the servers for problems with locks.

mod checks;
mod clock;
mod facts;
mod finding;
mod reach;
mod report;
mod rights;
mod server;
mod storage;
mod trial;

use std::process::ExitCode;
use std::time::Duration;

use uuid::Uuid;

use super::args::{Args, DoctorArgs, RedisArgs};
use super::outcome::{Result, UNAVAILABLE};
use super::{connect, output};
use checks::{Checks, REACHABLE};
use finding::{Finding, Line};
use leasehold::LockClient;
use leasehold::admin::{self, LockKeys};
use report::Style;
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
        let line = |check, finding: Finding| {
            // The server that has the lock, or else the deployment.
            let server = admin::server_of(client, lock).ok();
            let server = server.map_or_else(|| admin::deployment(client), |one| one.name().into());
            Some(Line {
                server,
                check,
                finding,
            })
        };
        let (mut checked, mut rest) = (Vec::new(), None);
        match admin::servers(client) {
            Ok(servers) => {
                // Like the name of a client's own channel.
                let control = LockKeys::new(client, &format!("leasehold:{}", Uuid::new_v4()));
                let names = Names::of(&LockKeys::new(client, lock), &control);
                let servers = servers.into_iter();
                checked.extend(servers.map(|server| Checks::begin(server, redis, &names)));
                // Not if a permission is missing: a lock that is acquired then may not be released.
                if checked.iter().all(Checks::grants_locks) {
                    rest = line("lock", trial::lock(client, lock, LEASE));
                }
            }
            Err(error) => rest = line(REACHABLE, reach::no_route(error)),
        }
        Self { checked, rest }
    }

    fn end(self) -> impl Iterator<Item = Line> {
        self.checked
            .into_iter()
            .flat_map(Checks::finish)
            .chain(self.rest)
    }
}

/// 0 if no check failed, 1 if one failed, 69 if no server could be used.
fn status(lines: &[Line]) -> ExitCode {
    let mut servers = lines.iter().filter(|line| line.check == REACHABLE);
    if servers.all(Line::is_failure) {
        ExitCode::from(UNAVAILABLE)
    } else if lines.iter().any(Line::is_failure) {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}
