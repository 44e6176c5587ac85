//! What calls return, and what many tests do with threads that wait.

use std::fmt::Debug;
use std::thread::ScopedJoinHandle;

use leasehold::{Error, Lock, LostReason, Result};

use super::timing::{A_WHILE, throughout};

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

/// Acquires and releases a lock that is free.
#[track_caller]
pub fn take_and_release(lock: &dyn Lock) {
    let guard = lock.acquire().expect("it is free");
    guard.unlock().expect("it is held");
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
