//! `leasehold watch`: the locks that are held, again and again.

mod frame;
mod live;
mod scanner;
mod screen;
mod signals;
mod wait;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use super::args::{RedisArgs, WatchArgs};
use super::outcome::{Failure, Result, UNAVAILABLE};
use super::reporter::Reporter;
use super::scan::Scan;
use super::{connect, output, table};
use crate::clock::Moment;
use leasehold::LockClient;

/// Nobody reads faster, and Redis has other things to do.
const SHORTEST: Duration = Duration::from_millis(100);

pub(super) fn watch(redis: &RedisArgs, watch: &WatchArgs, reporter: Reporter) -> Result<ExitCode> {
    if watch.every < SHORTEST {
        return Err(Failure::usage("--every is at least 100ms"));
    }
    let clients = connect::clients(redis, None)?;
    let mut first = Scan::run(&clients, &watch.pattern, &|| false);
    // Whoever is not there from the beginning was probably misspelt.
    if first.failures.len() == first.servers && !first.failures.is_empty() {
        return Err(first.failures.swap_remove(0));
    }
    first.check_deployment(&clients, redis)?;
    if io::stdin().is_terminal() && output::is_seen() {
        live::run(clients, watch, first)
    } else {
        print(&clients, watch, first, reporter)
    }
}

/// The plain list, until nobody reads it. A signal ends it as it ends any program.
fn print(
    clients: &[LockClient],
    watch: &WatchArgs,
    mut seen: Scan,
    reporter: Reporter,
) -> Result<ExitCode> {
    let mut text = String::new();
    loop {
        text.push_str(&table::plain(&seen.rows, seen.names_servers()));
        seen.failures
            .iter()
            .for_each(|failure| reporter.warning(failure));
        let next = Moment::now().after(watch.every);
        if !output::print(text.as_bytes())? || wait::reader_is_gone(next).map_err(unheard)? {
            return Ok(ExitCode::SUCCESS);
        }
        seen = Scan::run(clients, &watch.pattern, &|| false);
        text = String::from("\n");
    }
}

/// The failure of the terminal or the system.
fn unheard(error: io::Error) -> Failure {
    Failure::new(UNAVAILABLE, format!("cannot watch: {error}"))
}
