//! What calls return, and what many tests do with threads that wait.

use std::fmt::Debug;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crossbeam_channel::Receiver;
use leasehold::{Error, Interrupt, Lease, Lock, LockEvent, LostReason, Result};

use super::timing::{A_WHILE, SOON, throughout};

/// Asserts that a result is this error. Further arguments say what failed.
macro_rules! assert_error {
    ($result:expr, $variant:ident) => {
        crate::support::outcome::assert_error!($result, $variant, "a call")
    };
    ($result:expr, $variant:ident, $($what:tt)+) => {{
        let result = &$result;
        assert!(
            matches!(result, Err(leasehold::Error::$variant { .. })),
            "{}: {result:?}",
            format_args!($($what)+)
        );
    }};
}
pub(crate) use assert_error;

/// Asserts that a result is a loss for this reason.
#[track_caller]
pub fn assert_lost<T: Debug>(result: &Result<T>, expected: LostReason) {
    let is_lost = matches!(result, Err(Error::Lost { reason, .. }) if *reason == expected);
    assert!(is_lost, "{result:?} is not {expected:?}");
}

/// Asserts that a call refused this argument, and that its error concerns this lock.
#[track_caller]
pub fn assert_invalid<T: Debug>(result: &Result<T>, expected: &str, lock: &str) {
    let Err(error @ Error::InvalidArgument { argument, .. }) = result else {
        panic!("{result:?}");
    };
    assert_eq!((*argument, error.lock_name()), (expected, Some(lock)));
}

/// The losses among the events that have been sent: the name of each lock, and the reason.
pub fn lost_events(events: &Receiver<LockEvent>) -> Vec<(String, LostReason)> {
    let lost = events.try_iter().filter_map(|event| match event {
        LockEvent::Lost { lock, reason } => Some((lock.to_string(), reason)),
        _ => None,
    });
    lost.collect()
}

/// Fails if one of these threads does not wait any more after a while.
#[track_caller]
pub fn stay_waiting<'a, 's: 'a, T: 'a>(
    threads: impl IntoIterator<Item = &'a ScopedJoinHandle<'s, T>>,
) {
    let threads: Vec<_> = threads.into_iter().collect();
    throughout(A_WHILE.get(), "they wait", || {
        threads.iter().all(|thread| !thread.is_finished())
    });
}

/// The name of a call, and its result.
pub type Called = (&'static str, Result<()>);

/// Every call that can acquire the lock with this lease.
pub fn every_acquire(lock: &dyn Lock, lease: Lease) -> Vec<Called> {
    let interrupt = Interrupt::new();
    vec![
        ("lock_with", lock.lock_with(lease)),
        ("try_lock", lock.try_lock(Duration::ZERO, lease).map(drop)),
        (
            "try_lock, waiting",
            lock.try_lock(A_WHILE.get(), lease).map(drop),
        ),
        (
            "lock_interruptibly",
            lock.lock_interruptibly(lease, &interrupt),
        ),
        ("try_acquire", lock.try_acquire(SOON.get(), lease).map(drop)),
        ("acquire_with", lock.acquire_with(lease).map(drop)),
        (
            "acquire_interruptibly",
            lock.acquire_interruptibly(lease, &interrupt).map(drop),
        ),
        ("acquire_owned", lock.acquire_owned(lease).map(drop)),
        (
            "try_acquire_owned",
            lock.try_acquire_owned(SOON.get(), lease).map(drop),
        ),
        (
            "acquire_owned_interruptibly",
            lock.acquire_owned_interruptibly(lease, &interrupt)
                .map(drop),
        ),
    ]
}

/// Every call that asks Redis about a lock that no thread of the client holds.
pub fn every_call(lock: &dyn Lock) -> Vec<Called> {
    let mut called = every_acquire(lock, Lease::RENEWED);
    called.extend([
        ("lock", lock.lock()),
        ("acquire", lock.acquire().map(drop)),
        ("try_acquire_now", lock.try_acquire_now().map(drop)),
        ("is_locked", lock.is_locked().map(drop)),
        ("remaining", lock.remaining().map(drop)),
    ]);
    called
}
