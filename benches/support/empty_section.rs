//! The report about threads of one process that lock and unlock without work under the lock.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::{
    contention::Totals,
    raw_client::RawClient,
    table::{Bound, Table},
};

/// The bounds of the lines of the report.
pub struct Bounds {
    pub rate: Bound,
    pub commands: Bound,
    pub fairness: Bound,
    pub longest_wait: Bound,
}

/// Two scripts on one raw connection behind a fair in-process mutex.
pub fn behind_mutex(raw: RawClient, key: &str) -> impl Fn(&dyn Fn()) -> Duration + Sync {
    let connection = Mutex::new(raw);
    move |work| {
        let start = Instant::now();
        let mut connection = connection.lock();
        assert!(connection.acquire(key), "the lock is free");
        let wait = start.elapsed();
        work();
        connection.release(key);
        MutexGuard::unlock_fair(connection);
        wait
    }
}

/// Adds the lines of one measurement.
pub fn report(
    table: &mut Table,
    what: &str,
    (our, floor): (&Totals, &Totals),
    commands_each: f64,
    bounds: &Bounds,
) {
    let both = |figure: fn(&Totals) -> String| (figure(our), figure(floor));
    let named = |figure| format!("{what}: {figure}");

    let ratio = our.per_second() / floor.per_second();
    let sides = both(|side| format!("{:.0}/s", side.per_second()));
    let line = named("acquisitions, to scripts");
    table.figure(&line, sides, (ratio, " x"), bounds.rate);

    let sides = (format!("{commands_each:.3}"), "2".into());
    let line = named("commands per acquisition");
    table.figure(&line, sides, (commands_each, ""), bounds.commands);

    let sides = both(|side| format!("{:.2}", side.slowest_to_fastest()));
    let line = named("slowest to fastest thread");
    let figure = (our.slowest_to_fastest(), "");
    table.figure(&line, sides, figure, bounds.fairness);

    let longest = (our.longest_wait_millis(), " ms");
    let waits = (&our.waits, &floor.waits);
    let line = named("wait; the longest");
    table.times(&line, waits, longest, bounds.longest_wait);
}
