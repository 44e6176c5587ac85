//! What a function with `#[locked]` returns.

use crate::error::Error;

/// A `Result` whose error can be made of ours.
#[diagnostic::on_unimplemented(
    message = "a function with `#[locked]` returns a `Result`, but this one returns `{Self}`",
    label = "this is no `Result`",
    note = "write `-> Result<T, E>` where `E: From<leasehold::Error>`: by it the caller learns that somebody else has the lock"
)]
pub trait LockedResult {
    /// The lock is not to be had, or did not last.
    fn failed(error: Error) -> Self;

    /// Whether the body failed by itself.
    fn is_failure(&self) -> bool;
}

impl<T, E: FromLockError> LockedResult for Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(E::from_lock(error))
    }

    fn is_failure(&self) -> bool {
        self.is_err()
    }
}

/// What can be made of an error of ours.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot tell what is wrong with the lock: it has no `From<leasehold::Error>`",
    label = "the error of this function is `{Self}`",
    note = "return an error type of your own and write `impl From<leasehold::Error>` for it (or `#[from]` of `thiserror`), or return a `Box<dyn Error>`"
)]
pub trait FromLockError {
    /// That error.
    fn from_lock(error: Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<Error>> FromLockError for E {
    fn from_lock(error: Error) -> Self {
        error.into()
    }
}
