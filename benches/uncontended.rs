//! Lock and unlock of a free lock, and nested lock and unlock of a held lock. The floor is one pair
//! of scripts on one raw connection.

#[path = "support/mod.rs"]
mod support;

use criterion::Criterion;
use leasehold::ReentrantLock;
use support::{
    Server,
    commands::commands,
    compare, is_list, is_test, pin_clients,
    raw_client::RawClient,
    table::{Bound, Table},
    time,
    usage::cpu_time_of,
};

/// Pairs in one sample of the CPU time.
const CPU_PAIRS: u32 = 10;

const COUNTED_PAIRS: u32 = 1_000;

fn main() {
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let mut raw = RawClient::new(&server);
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let lock = client.reentrant_lock("pair:ours");
    let what = "lock and unlock";
    let pairs = compare(
        &mut criterion,
        what,
        || time(|| pair(&lock)),
        || time(|| raw.pair("pair:floor")),
    );
    table.comparison(what, &pairs, Bound::AtMost(1.05));

    let what = format!("CPU time of the client, {CPU_PAIRS} pairs");
    let pairs = compare(
        &mut criterion,
        &what,
        || cpu_time_of(|| (0..CPU_PAIRS).for_each(|_| pair(&lock))),
        || cpu_time_of(|| (0..CPU_PAIRS).for_each(|_| raw.pair("pair:floor"))),
    );
    table.comparison(&what, &pairs, Bound::AtMost(1.10));

    lock.lock().expect("free");
    let what = "nested lock and unlock, to a pair of scripts";
    let pairs = compare(
        &mut criterion,
        what,
        || time(|| pair(&lock)),
        || time(|| raw.pair("pair:floor")),
    );
    table.comparison(what, &pairs, Bound::AtMost(0.02));
    if !is_list() {
        nested_commands(&mut table, &server, &lock);
    }
    lock.unlock().expect("held");

    criterion.final_summary();
    table.print();
}

fn nested_commands(table: &mut Table, server: &Server, held: &ReentrantLock) {
    let pairs = if is_test() { 20 } else { COUNTED_PAIRS };
    let sent = commands(&[server.address()], || (0..pairs).for_each(|_| pair(held)));
    let each = sent as f64 / f64::from(pairs);
    let what = "commands of a nested pair";
    let sides = (format!("{sent} for {pairs}"), String::new());
    table.figure(what, sides, (each, ""), Bound::AtMost(0.0));
}

fn pair(lock: &ReentrantLock) {
    lock.lock().expect("free or held by this thread");
    lock.unlock().expect("held");
}
