//! `leasehold list`: the locks that are held.

use std::process::ExitCode;

use super::args::{ListArgs, RedisArgs};
use super::outcome::Result;
use super::reporter::Reporter;
use super::scan::{Scan, settle};
use super::{connect, json, output, table};

pub(super) fn list(redis: &RedisArgs, list: &ListArgs, reporter: Reporter) -> Result<ExitCode> {
    let clients = connect::clients(redis, None)?;
    let seen = Scan::run(&clients, &list.pattern, &|| false);
    seen.check_deployment(&clients, redis)?;
    let with_server = seen.names_servers();
    let text = if list.json {
        let objects = seen.rows.iter().map(|row| row.json(with_server));
        objects.map(json::line).collect()
    } else if !output::is_seen() {
        table::plain(&seen.rows, with_server)
    } else if seen.rows.is_empty() {
        String::new()
    } else {
        let (width, _) = output::size();
        table::pretty(&seen.rows, with_server, width, false)
    };
    output::print(text.as_bytes())?;
    if seen.rows.is_empty() && seen.failures.is_empty() && output::is_seen() {
        reporter.remark(format!("no lock like {:?} is held", list.pattern));
    }
    settle(seen.failures, seen.servers, redis, reporter)?;
    Ok(ExitCode::SUCCESS)
}
