//! All times of these tests are defined here, so that one number adapts them to a slow machine.
//!
//! `LEASEHOLD_TIMING=3` makes all leases and bounds three times as long.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The lease of renewed locks in a test. Long enough that a busy machine does not lose them, short
/// enough that a test can wait for several.
pub const LEASE: Millis = Millis(1_000);

/// The longest wait for something that should happen soon.
pub const SOON: Millis = Millis(10_000);

/// The longest time of a test.
pub const LONGEST_TEST: Millis = Millis(300_000);

/// Long enough to show that something does not happen.
pub const A_WHILE: Millis = Millis(150);

/// The tolerance for times: the scheduling of a busy machine, and the poll.
pub const SLIP: Millis = Millis(250);

const POLL: Duration = Duration::from_millis(2);

/// Milliseconds, before scaling.
#[derive(Clone, Copy, Debug)]
pub struct Millis(pub u64);

impl Millis {
    pub fn get(self) -> Duration {
        static SCALE: LazyLock<f64> = LazyLock::new(|| {
            let scale = std::env::var("LEASEHOLD_TIMING").ok();
            scale.map_or(1.0, |scale| {
                scale.parse().expect("LEASEHOLD_TIMING is a number")
            })
        });
        Duration::from_millis(self.0).mul_f64(*SCALE)
    }
}

pub fn millis(millis: u64) -> Duration {
    Millis(millis).get()
}

/// Waits until `condition` is true. Fails if that takes too long.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// Waits until `probe` returns a value. Fails if that takes too long.
#[track_caller]
pub fn eventually_some<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(
            start.elapsed() < SOON.get(),
            "timed out waiting for: {what}"
        );
        std::thread::sleep(POLL);
    }
}

/// Fails if `condition` becomes false within `period`.
#[track_caller]
pub fn throughout(period: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut before = start;
    while start.elapsed() < period {
        // A machine that stalls for a third of a lease ends it, and the lock reports that
        // correctly.
        let gap = before.elapsed();
        if gap > SLIP.get() {
            println!("not checked for {gap:?}: {what}");
        }
        before = Instant::now();
        assert!(condition(), "no longer after {:?}: {what}", start.elapsed());
        std::thread::sleep(POLL);
    }
}

/// Runs `work`, which must end within `bound`.
#[track_caller]
pub fn within<T>(bound: Duration, what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    assert!(
        took <= bound,
        "{what} took {took:?}, more than the bound of {bound:?}"
    );
    result
}
