//! `leasehold list`: the locks that are held.

use clap::ColorChoice;

use super::args::{ListArgs, RedisArgs};
use super::outcome::{Result, settle};
use super::reporter::remark;
use super::scan::{Scan, Wanted};
use super::table::Style;
use super::{connect, output, table};

pub(super) fn list(redis: &RedisArgs, list: &ListArgs, color: ColorChoice) -> Result<()> {
    let clients = connect::clients(redis, None)?;
    let wanted = Wanted {
        numbers: list.all,
        holders: list.json || output::is_terminal(),
        no_cluster: redis.expects_no_cluster(),
        pattern: &list.pattern,
    };
    let scan = Scan::run(&clients, wanted);
    let with_server = scan.names_servers();
    let text = if list.json {
        let objects = scan.rows.iter().map(|row| row.json(with_server));
        objects.map(|object| output::json(&object)).collect()
    } else {
        let is_terminal = output::is_terminal();
        let style = Style {
            width: is_terminal.then(|| output::size().0),
            flat: false,
            colors: is_terminal && output::has_colors(color),
        };
        table::text(&scan.rows, with_server, style)
    };
    output::print(text.as_bytes())?;
    if scan.rows.is_empty() && scan.failures.is_empty() && output::is_terminal() {
        remark(format!("no lock that matches {:?} is held", list.pattern));
    }
    settle(scan.failures, scan.servers, redis.redlock)
}
