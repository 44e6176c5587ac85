//! `leasehold doctor`: checks the servers for problems with locks.

mod checks;
mod clock;
mod finding;
mod report;
mod server;
mod trial;

use std::time::Duration;

use uuid::Uuid;

use super::args::{Args, DoctorArgs};
use super::outcome::{CHECK_FAILED, Result, UNAVAILABLE};
use super::{connect, output};
use checks::{Checks, REACHABLE};
use finding::Line;
use leasehold::admin;
use report::Style;
use trial::Trial;

/// The lease of what is acquired as a test, in case this program dies meanwhile.
const LEASE: Duration = Duration::from_secs(10);

pub(super) fn run(general: &Args, args: &DoctorArgs) -> Result<u8> {
    let redis = &general.redis;
    let clients = connect::clients(redis, Some(LEASE))?;
    let waiters = connect::clients(redis, Some(LEASE))?;
    // No other client uses these names, also if it is a doctor.
    let names = format!("{}:{}", args.key, Uuid::new_v4());
    let mut checks = Checks::default();
    for (holder, waiter) in clients.iter().zip(&waiters) {
        admin::check_name(holder, &args.key)?;
        checks.check(Trial {
            holder,
            waiter,
            in_cluster: redis.cluster,
            names: &names,
        });
    }
    let lines = checks.finish();
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
