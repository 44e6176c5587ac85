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

use std::time::Duration;

use uuid::Uuid;

use super::args::{Args, DoctorArgs, RedisArgs};
use super::outcome::{CHECK_FAILED, Result, UNAVAILABLE};
use super::{connect, output};
use checks::{Checks, REACHABLE};
use finding::{Finding, Line};
use leasehold::LockClient;
use leasehold::admin::{self, LockKeys};
use report::Style;

/// The lease of the lock that is acquired as a test, in case this program dies meanwhile.
const LEASE: Duration = Duration::from_secs(10);

pub(super) fn run(general: &Args, args: &DoctorArgs) -> Result<u8> {
    let redis = &general.redis;
    let clients = connect::clients(redis, Some(LEASE))?;
    for client in &clients {
        admin::check_name(client, &args.key)?;
    }
    // All begin before the first one ends, so that their clocks are compared over the same second.
    let begin = |client| begin(client, redis, &args.key);
    let begun: Vec<_> = clients.iter().map(begin).collect();
    let lines = begun.into_iter().flat_map(|(checks, rest)| {
        let checks = checks.into_iter().flat_map(Checks::finish);
        checks.chain(rest)
    });
    let lines: Vec<Line> = lines.collect();
    let style = Style {
        json: args.json,
        quiet: general.quiet,
        colors: !args.json && output::has_colors(general.color),
    };
    output::print(report::text(&lines, style).as_bytes())?;
    let mut reachable = lines.iter().filter(|line| line.check == REACHABLE);
    Ok(match lines.iter().any(Line::is_failure) {
        _ if reachable.all(Line::is_failure) => UNAVAILABLE,
        true => CHECK_FAILED,
        false => 0,
    })
}

/// The checks of the servers of one client, and the finding about the client as a whole.
fn begin<'a>(
    client: &LockClient,
    redis: &'a RedisArgs,
    lock: &str,
) -> (Vec<Checks<'a>>, Option<Line>) {
    let line = |check, finding: Finding| {
        // The server that has the lock, or else the deployment.
        let server = admin::server_of(client, lock).ok();
        let server = server.map_or_else(|| admin::deployment(client), |one| one.name().into());
        Line {
            server,
            check,
            finding,
        }
    };
    let servers = match admin::servers(client) {
        Ok(servers) => servers,
        Err(error) => return (vec![], Some(line(REACHABLE, reach::no_route(error)))),
    };
    // Like the name of a client's own channel.
    let control = LockKeys::new(client, &format!("leasehold:{}", Uuid::new_v4()));
    let lock_keys = LockKeys::new(client, lock);
    let begin = |server| Checks::begin(server, redis, rights::rights(&lock_keys, &control));
    let checks: Vec<_> = servers.into_iter().map(begin).collect();
    // Not if a permission is missing: a lock that is acquired then may not be released.
    let grants_locks = checks.iter().all(Checks::grants_locks);
    let trial = grants_locks.then(|| line("lock", trial::lock(client, lock, LEASE)));
    (checks, trial)
}
