//! Variables of which each thread has its own.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use crate::tasks;

/// What `thread_local!` declares.
pub struct LocalKey<T: 'static> {
    init: fn() -> T,
}

/// The thread is ending, and its variables are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread is ending")
    }
}

impl std::error::Error for AccessError {}

impl<T: 'static> LocalKey<T> {
    /// A variable that begins with this value.
    #[must_use]
    pub const fn new(init: fn() -> T) -> Self {
        Self { init }
    }

    /// Uses the variable of the running thread.
    ///
    /// # Panics
    ///
    /// While the variables of the thread are dropped.
    pub fn with<R>(&'static self, use_it: impl FnOnce(&T) -> R) -> R {
        self.try_with(use_it).expect("the thread is not ending")
    }

    /// Uses the variable of the running thread.
    ///
    /// # Errors
    ///
    /// While the variables of the thread are dropped.
    pub fn try_with<R>(&'static self, use_it: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let key = std::ptr::from_ref(self).addr();
        let value = match tasks::local(key)? {
            Some(value) => value,
            None => {
                let value: Rc<dyn Any> = Rc::new((self.init)());
                tasks::set_local(key, Rc::clone(&value));
                value
            }
        };
        Ok(use_it(value.downcast_ref().expect("a key has one type")))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}
