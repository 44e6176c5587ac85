//! Lock and unlock with a client whose released locks linger. The floor is one pair of scripts on
//! one raw connection.

#[path = "support/mod.rs"]
mod support;

use std::time::Duration;

use criterion::Criterion;
use leasehold::{LockClient, ReentrantLock};
use support::{
    Server,
    commands::commands,
    compare, is_list, pin_clients,
    raw_client::RawClient,
    table::{Bound, Table},
    time,
};

/// For how long a released lock lingers.
const LINGER: Duration = Duration::from_millis(10);

const COUNTED_PAIRS: u32 = 10_000;

const PAIR: &str = "lock and unlock with linger, to a pair of scripts";
const PAIR_BOUND: Bound = Bound::AtMost(0.02);
const COMMANDS: &str = "the same: commands of a pair";
const COMMANDS_BOUND: Bound = Bound::AtMost(0.01);

fn main() {
    pin_clients();
    let server = Server::start();
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();
    let builder = LockClient::builder(&server.url()).linger(LINGER);
    let client = builder.build().expect("valid settings");
    measure(&mut criterion, &mut table, &server, &client);
    criterion.final_summary();
    table.print();
}

fn measure(criterion: &mut Criterion, table: &mut Table, server: &Server, client: &LockClient) {
    let lock = client.reentrant_lock("linger:ours");
    let mut raw = RawClient::new(server);
    let pairs = compare(
        criterion,
        PAIR,
        || time(|| pair(&lock)),
        || time(|| raw.pair("linger:floor")),
    );
    table.comparison(PAIR, &pairs, PAIR_BOUND);

    if !is_list() {
        let sent = commands(&[server.address()], || {
            (0..COUNTED_PAIRS).for_each(|_| pair(&lock));
        });
        let each = sent as f64 / f64::from(COUNTED_PAIRS);
        let sides = (format!("{sent} for {COUNTED_PAIRS}"), "2 for each".into());
        table.figure(COMMANDS, sides, (each, ""), COMMANDS_BOUND);
    }
}

fn pair(lock: &ReentrantLock) {
    lock.lock().expect("free");
    lock.unlock().expect("held");
}
