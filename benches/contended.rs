//! Eight threads of one process on one lock. With an empty critical section, the floor is the same
//! two scripts on one raw connection behind a fair in-process mutex. With 2 ms in the critical
//! section and 20 ms between two of them, the floor is an in-process mutex alone.

#[path = "support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use criterion::Criterion;
use parking_lot::Mutex;
use support::{
    Server,
    contention::{Totals, empty_section, enter, windows},
    pin_clients,
    raw_client::RawClient,
    table::{Bound, Table},
};

const HOLD: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_millis(20);

fn main() {
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let lock = client.reentrant_lock("contended");
    let sent = || server.command_counts().sent();
    let raw = (RawClient::new(&server), "raw");
    empty_section(&mut criterion, &mut table, &lock, raw, &sent);

    let mutex = Mutex::new(());
    let in_process = |work: &dyn Fn()| {
        let start = Instant::now();
        let guard = mutex.lock();
        let wait = start.elapsed();
        work();
        drop(guard);
        wait
    };
    let (our, floor) = windows(
        &mut criterion,
        "8 threads, 2 ms inside, 20 ms outside",
        &sent,
        (&enter(&lock), &in_process),
        (HOLD, PAUSE),
    );
    if our.acquired > 0 {
        report_busy(&mut table, &our, &floor);
    }

    criterion.final_summary();
    table.print();
}

fn report_busy(table: &mut Table, our: &Totals, floor: &Totals) {
    let ratio = our.per_second() / floor.per_second();
    let [ours, floor] = [our, floor].map(|totals| format!("{:.0}/s", totals.per_second()));
    let what = "2 ms in, 20 ms out: acquisitions";
    table.figure(what, (ours, floor), (ratio, " x"), Bound::AtLeast(0.90));
}
