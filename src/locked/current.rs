//! What the body of a locked function can ask about its lock.

use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use super::AnyGuard;
use crate::error::{Error, LostReason, Result};
use crate::lock::Short;

thread_local! {
    /// The locked functions that this thread is in, the innermost last. Nobody's destructor runs while it
    /// is borrowed: it only knows the locks, it does not have them.
    static ENTERED: RefCell<Vec<Weak<AnyGuard>>> = const { RefCell::new(Vec::new()) };
}

/// While it exists, its lock is the current one, unless there is another within.
pub(super) struct Entered;

impl Entered {
    pub(super) fn new(held: &Rc<AnyGuard>) -> Self {
        // A thread that ends has no stack any more, but may still run a locked function.
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().push(Rc::downgrade(held)));
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().pop());
    }
}

/// The lock of the innermost function with [`#[locked]`](crate::locked) that this thread is in.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Error, LockClient, current_lock, locked};
///
/// #[locked(client = client, key = "order:{order}")]
/// fn settle(client: &LockClient, order: u64) -> leasehold::Result<()> {
///     for step in ["read", "compute", "write"] {
///         current_lock().check()?;
///         println!("{step} {order}");
///     }
///     Ok(())
/// }
///
/// settle(&LockClient::connect(url)?, 7)?;
/// assert!(matches!(current_lock().check(), Err(Error::NotHeld { .. })));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_lock() -> CurrentLock {
    let innermost = ENTERED.try_with(|entered| entered.borrow().last().cloned());
    let held = innermost.ok().flatten().unwrap_or_default();
    let name = held
        .upgrade()
        .map_or_else(String::new, |guard| guard.lock().name().to_owned());
    CurrentLock { held, name }
}

/// The lock of a function with [`#[locked]`](crate::locked), for its body; made by [`current_lock`]. Its methods ask nobody.
///
/// It keeps nothing locked. When its function has returned, and if it was made outside of any, it is the lock of
/// nobody: not held, not lost, and without a token.
///
/// It stays on its thread (it is not `Send`), as the lock does.
#[derive(Clone)]
pub struct CurrentLock {
    held: Weak<AnyGuard>,
    name: String,
}

impl CurrentLock {
    /// The name of the lock, with its prefix; empty if this was made outside of any locked function.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fails as soon as this process knows that the lock is lost, as [`LockGuard::check`](crate::LockGuard::check).
    ///
    /// # Errors
    ///
    /// [`Error::Lost`], also when the renewals of `max_renewals` are used up. [`Error::NotHeld`] outside of a locked
    /// function, and once the one that this was made in has returned.
    pub fn check(&self) -> Result<()> {
        let not_held = || Error::NotHeld {
            lock: match &*self.name {
                "" => "of a #[locked] function".into(),
                name => name.into(),
            },
        };
        self.held.upgrade().ok_or_else(not_held)?.lock().check()
    }

    /// Whether [`check`](Self::check) knows the lock to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held
            .upgrade()
            .is_some_and(|guard| guard.lock().is_lost())
    }

    /// What is left of the lease by the local clock, as [`LockGuard::remaining`](crate::LockGuard::remaining); zero once it
    /// is lost or not held.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let held = self.held.upgrade();
        held.map_or(Duration::ZERO, |guard| guard.lock().remaining())
    }

    /// The [token](crate::FencedGuard::fencing_token) of this hold, with `kind = fenced`; otherwise, and if it is not held,
    /// `None`.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.held.upgrade()?.token()
    }

    /// Gets one message when the lock is lost, as [`LockGuard::lost`](crate::LockGuard::lost), and is disconnected when the
    /// hold ends: when the outermost of this thread's functions and guards under this lock has given it back. All of them share
    /// that one message. Clones may be listened to on other threads. Disconnected at once if it is not held.
    #[must_use]
    pub fn lost(&self) -> Receiver<LostReason> {
        let held = self.held.upgrade();
        held.map_or_else(|| bounded(0).1, |guard| guard.lock().lost().clone())
    }
}

impl fmt::Debug for CurrentLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CurrentLock");
        shown.field("name", &Short(&self.name));
        match self.held.upgrade() {
            Some(guard) => {
                if let Some(token) = guard.token() {
                    shown.field("token", &token);
                }
                guard.lock().show_state(&mut shown);
            }
            None => {
                shown.field("state", &format_args!("NotHeld"));
            }
        }
        shown.finish()
    }
}
