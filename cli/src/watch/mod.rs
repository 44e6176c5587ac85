//! `leasehold watch`: the locks that are held, shown repeatedly.

mod frame;
mod live;
mod screen;
mod sources;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use super::args::{RedisArgs, WatchArgs};
use super::outcome::{Failure, Result, UNAVAILABLE};
use super::reporter::Reporter;
use super::scan::{Scan, Wanted};
use super::{connect, output, table};
use leasehold::__Moment as Moment;
use leasehold::LockClient;

/// The shortest time between two scans, so that Redis can serve other clients.
const SHORTEST: Duration = Duration::from_millis(100);

pub(super) fn watch(redis: &RedisArgs, watch: &WatchArgs, reporter: Reporter) -> Result<ExitCode> {
    if watch.every < SHORTEST {
        return Err(Failure::usage("--every is at least 100ms"));
    }
    let clients = connect::clients(redis, None)?;
    let mut first = Scan::run(&clients, Wanted::locks(watch.pattern.bytes()));
    // A server that cannot be reached at the start was probably misspelt.
    if first.failures.len() == first.servers && !first.failures.is_empty() {
        return Err(first.failures.swap_remove(0));
    }
    first.check_deployment(&clients, redis)?;
    if io::stdin().is_terminal() && output::is_terminal() {
        live::run(clients, watch, first)
    } else {
        print(&clients, watch, first, reporter)
    }
}

/// Prints plain lists until the reader of standard output ends. A signal ends the program as usual.
fn print(
    clients: &[LockClient],
    watch: &WatchArgs,
    mut scan: Scan,
    reporter: Reporter,
) -> Result<ExitCode> {
    let mut text = String::new();
    loop {
        text.push_str(&table::plain(&scan.rows, scan.names_servers()));
        scan.failures
            .iter()
            .for_each(|failure| reporter.warning(failure));
        let next = Moment::now().after(watch.every);
        if !output::print(text.as_bytes())? || output::reader_is_gone(next).map_err(view_failed)? {
            return Ok(ExitCode::SUCCESS);
        }
        scan = Scan::run(clients, Wanted::locks(watch.pattern.bytes()));
        text = String::from("\n");
    }
}

/// A failure of the terminal or of the system.
fn view_failed(error: io::Error) -> Failure {
    Failure::new(UNAVAILABLE, format!("cannot watch: {error}"))
}
