//! Renewals beside many callers: one client holds 10,000 locks, while 256 of its threads lock and
//! unlock other names as fast as they can. A renewal is due after two thirds of the lease. One that
//! comes late leaves less of it.

#[path = "support/mod.rs"]
mod support;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use leasehold::{LockClient, LockGuard};
use support::{
    Server, is_list, is_test, pin_clients,
    renewal_cost::Holding,
    table::{Bound, Table},
};

/// The time between two looks at all leases.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A renewal is late after this share of the lease.
const LATEST: f64 = 0.75;

/// A thread needs little.
const STACK_BYTES: usize = 256 * 1024;

struct Seen {
    /// The largest share of its lease that a held lock had used up.
    latest: f64,
    lost: usize,
    failed: u64,
    pairs: u64,
}

fn main() {
    if is_list() {
        return;
    }
    pin_clients();
    let server = Server::start();
    let holding = Holding::new(6, 24);
    let client = LockClient::builder(&server.url())
        .watchdog_lease(holding.lease)
        .build()
        .expect("good settings");
    let (held, callers) = if is_test() { (200, 8) } else { (10_000, 256) };
    let locks: Vec<_> = (0..held)
        .map(|number| client.reentrant_lock(&format!("held:{number}")))
        .collect();
    let guards: Vec<_> = locks
        .iter()
        .map(|lock| lock.acquire().expect("free"))
        .collect();
    let look = || {
        let left: Vec<_> = guards.iter().map(LockGuard::remaining).collect();
        let least = left.iter().min().copied().unwrap_or_default();
        let used = 1.0 - least.as_secs_f64() / holding.lease.as_secs_f64();
        let lost = left.iter().filter(|left| left.is_zero()).count();
        (used, lost)
    };

    let mut table = Table::new();
    for callers in [0, callers] {
        let seen = watch(&client, holding.time, callers, &look);
        report(&mut table, held, callers, holding.time, &seen);
    }
    table.print();
}

/// Looks at all leases for a time, beside threads that lock and unlock.
fn watch(
    client: &LockClient,
    time: Duration,
    callers: usize,
    look: &dyn Fn() -> (f64, usize),
) -> Seen {
    let failed = client.stats().renewals_failed;
    let (is_over, pairs) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = |number: usize| {
        let lock = client.reentrant_lock(&format!("called:{number}"));
        while !is_over.load(Ordering::Relaxed) {
            lock.lock().expect("the lock is free");
            lock.unlock().expect("held");
            pairs.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (mut latest, mut lost) = (0.0_f64, 0);
    thread::scope(|scope| {
        let work = &work;
        for number in 0..callers {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            let started = thread.spawn_scoped(scope, move || work(number));
            started.expect("enough threads");
        }
        let start = Instant::now();
        while start.elapsed() < time {
            thread::sleep(LOOK_EVERY);
            let (used, gone) = look();
            latest = latest.max(used);
            lost = lost.max(gone);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    Seen {
        latest,
        lost,
        failed: client.stats().renewals_failed - failed,
        pairs: pairs.into_inner(),
    }
}

fn report(table: &mut Table, held: usize, callers: usize, time: Duration, seen: &Seen) {
    let what = |figure| format!("{held} held locks, {callers} callers: {figure}");
    let none = String::new;
    let lost = format!("{} in {:.0} s", seen.lost, time.as_secs_f64());
    let figure = (seen.lost as f64, "");
    table.figure(&what("lost"), (lost, none()), figure, Bound::AtMost(0.0));
    let figure = (seen.failed as f64, "");
    let bound = Bound::AtMost(0.0);
    table.figure(
        &what("renewals that failed"),
        (none(), none()),
        figure,
        bound,
    );
    let latest = format!("{:.0} %", seen.latest * 100.0);
    let (what_share, bound) = (
        what("latest renewal, share of the lease"),
        Bound::AtMost(LATEST),
    );
    table.figure(&what_share, (latest, none()), (seen.latest, ""), bound);
    if callers > 0 {
        let rate = seen.pairs as f64 / time.as_secs_f64();
        let figure = (rate, "/s");
        table.figure(
            &what("pairs of the callers"),
            (none(), none()),
            figure,
            Bound::None,
        );
    }
}
