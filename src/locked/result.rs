//! The traits of the return type of a function with `#[locked]`.

use crate::error::Error;

/// A `Result` whose error type can be made from an error of the lock.
#[diagnostic::on_unimplemented(
    message = "a function with `#[locked]` must return a `Result`, but this one returns `{Self}`",
    label = "this is not a `Result`",
    note = "write `-> Result<T, E>` where `E: From<leasehold::Error>`, to report errors of the lock"
)]
pub trait LockedResult {
    /// The result if the lock was not acquired, or was lost.
    fn failed(error: Error) -> Self;

    /// True if the body returned an error.
    fn is_err(&self) -> bool;
}

impl<T, E: FromLockError> LockedResult for Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(E::from_lock(error))
    }

    fn is_err(&self) -> bool {
        self.is_err()
    }
}

/// An error type that can be made from an error of the lock.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `From<leasehold::Error>`, which `#[locked]` needs",
    label = "the error of this function is `{Self}`",
    note = "return an error type of your own that implements `From<leasehold::Error>` \
            (as with `#[from]` of `thiserror`), or a `Box<dyn Error>`"
)]
pub trait FromLockError {
    /// Converts the error of the lock.
    fn from_lock(error: Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<Error>> FromLockError for E {
    fn from_lock(error: Error) -> Self {
        error.into()
    }
}
