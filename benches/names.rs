//! A lock on twenty names of one server: commands and time of a pair, and two processes that give
//! the names in opposite orders. The floors are one pair of scripts for one name on one raw
//! connection, and one of the processes alone.

#[path = "support/mod.rs"]
mod support;

use std::time::Duration;

use criterion::Criterion;
use leasehold::MultiLock;
use support::{
    Server,
    commands::commands,
    compare,
    contention::Load,
    is_list, is_test, length, pin_clients,
    raw_client::RawClient,
    table::{Bound, Table},
    time,
    worker::{self, Kind, Spec, twenty_names},
    worker_group::Group,
};

const COUNTED_PAIRS: u32 = 100;

fn main() {
    if worker::serve() {
        return;
    }
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let lock = client.multi_lock(twenty_names("ours"));
    let mut raw = RawClient::new(&server);
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let what = "20 names: a pair, to scripts for one name";
    let pairs = compare(
        &mut criterion,
        what,
        || time(|| pair(&lock)),
        || time(|| raw.pair("floor")),
    );
    table.comparison(what, &pairs, Bound::AtMost(2.0));
    if !is_list() {
        count_commands(&mut table, &server, &lock);
        opposite_orders(&mut table, &server);
    }
    criterion.final_summary();
    table.print();
}

fn count_commands(table: &mut Table, server: &Server, lock: &MultiLock) {
    let pairs = if is_test() { 5 } else { COUNTED_PAIRS };
    let sent = commands(&[server.address()], || (0..pairs).for_each(|_| pair(lock)));
    let each = sent as f64 / f64::from(pairs);
    let sides = (format!("{sent} for {pairs}"), "2 for each".into());
    table.figure(
        "20 names: commands of a pair",
        sides,
        (each, ""),
        Bound::AtMost(2.0),
    );
}

fn opposite_orders(table: &mut Table, server: &Server) {
    let spec = |kind, name: &str| Spec {
        kind,
        url: server.url(),
        name: name.into(),
        load: Load::empty(1),
    };
    let both = [spec(Kind::Names, "both"), spec(Kind::NamesReversed, "both")];
    let alone = [spec(Kind::Names, "alone")];
    let mut groups = [Group::start(&both), Group::start(&alone)];
    let window = length(Duration::from_secs(1), Duration::from_millis(100));
    Group::alternate(&mut groups, 7, window);

    let rates = [&groups[0], &groups[1]].map(|group| group.totals.per_second());
    let sides = rates.map(|rate| format!("{rate:.0}/s")).into();
    let figure = (rates[0] / rates[1].max(1e-9), " x");
    let what = "20 names, 2 processes, opposite orders: acquisitions, to one process alone";
    table.figure(what, sides, figure, Bound::AtLeast(0.8));
}

fn pair(lock: &MultiLock) {
    lock.lock().expect("free");
    lock.unlock().expect("held");
}
