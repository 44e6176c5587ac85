//! Eight threads of one process on one lock: with an empty critical section, and with 2 ms in it
//! and 20 ms between two of them. One floor is a fair in-process mutex, and one is the faster of
//! two locks that are written directly with EVALSHA.

#[path = "support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use support::{
    Server,
    commands::commands,
    contention::{Load, Totals, enter, one_window, windows},
    empty_section::{Bounds, behind_mutex, report},
    is_list, pin_clients,
    raw_client::RawClient,
    raw_waiter::enter_raw,
    table::{Bound, Table},
};

const EMPTY: Load = Load::empty(8);
const BUSY: Load = Load {
    threads: 8,
    hold: Duration::from_millis(2),
    pause: Duration::from_millis(20),
};

const BOUNDS: Bounds = Bounds {
    rate: Bound::AtLeast(20.0),
    commands: Bound::AtMost(0.05),
    fairness: Bound::AtLeast(0.9),
    longest_wait: Bound::AtMost(30.0),
};

fn main() {
    if is_list() {
        return;
    }
    pin_clients();
    let server = Server::start();
    let mut table = Table::new();
    empty(&server, &mut table);
    busy(&server, &mut table);
    table.print();
}

fn empty(server: &Server, table: &mut Table) {
    let lock = server.client().reentrant_lock("empty");
    let ours = enter(&lock);
    let behind_mutex = behind_mutex(RawClient::new(server), "behind mutex");
    let waiting = enter_raw(&server.url(), "waiting", EMPTY.threads);
    let [our, mutex, behind_mutex, waiting] = windows([
        (&ours, EMPTY),
        (&in_process(), EMPTY),
        (&behind_mutex, EMPTY),
        (&*waiting, EMPTY),
    ]);
    let mut acquired = 0;
    let sent = commands(&[server.address()], || acquired = one_window(&ours, EMPTY));
    let commands_each = sent as f64 / acquired as f64;

    to_mutex(
        table,
        "8 threads, empty",
        (&our, &mutex),
        Bound::AtLeast(0.5),
    );
    let is_mutex_faster = behind_mutex.per_second() > waiting.per_second();
    let floor = if is_mutex_faster {
        behind_mutex
    } else {
        waiting
    };
    report(
        table,
        "8 threads, empty",
        (&our, &floor),
        commands_each,
        &BOUNDS,
    );
}

fn busy(server: &Server, table: &mut Table) {
    let lock = server.client().reentrant_lock("busy");
    let [our, mutex] = windows([(&enter(&lock), BUSY), (&in_process(), BUSY)]);
    let what = "8 threads, 2 ms in, 20 ms out";
    to_mutex(table, what, (&our, &mutex), Bound::AtLeast(0.98));
}

fn to_mutex(table: &mut Table, what: &str, (our, mutex): (&Totals, &Totals), bound: Bound) {
    let ratio = our.per_second() / mutex.per_second();
    let sides = [our, mutex].map(|side| format!("{:.0}/s", side.per_second()));
    let what = format!("{what}: acquisitions, to a mutex");
    table.figure(&what, sides.into(), (ratio, " x"), bound);
}

/// A mutex of this process that each thread hands to the next one.
fn in_process() -> impl Fn(&dyn Fn()) -> Duration + Sync {
    let mutex = Mutex::new(());
    move |work| {
        let start = Instant::now();
        let guard = mutex.lock();
        let wait = start.elapsed();
        work();
        MutexGuard::unlock_fair(guard);
        wait
    }
}
