//! What calls return, and what many tests do with threads that wait.

use std::thread::ScopedJoinHandle;

use leasehold::Lock;

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
