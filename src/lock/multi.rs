//! A lock on several names at once.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use super::handle::{Acquire, Handle, LockKind};
use super::methods::lock_by_handle;
use super::several::Several;
use super::{LockGuard, ReentrantLock};
use crate::base::interrupt::Interrupt;
use crate::core::Core;
use crate::error::Result;
use crate::lease::Lease;
use crate::local::Hold;

/// Several reentrant locks that are acquired together: all of them or none. Made by
/// [`LockClient::multi_lock`](crate::LockClient::multi_lock) for several names of one client, and
/// by [`over`](Self::over) for locks of several clients.
///
/// Each name is the same lock as a [`ReentrantLock`] of that name, for this program and for all
/// other programs. Each name is renewed on its own, counts on its own in [`Stats`](crate::Stats),
/// and has its own [`LockEvent`](crate::LockEvent)s.
///
/// # All or none
///
/// A call that ends without the lock (false, an error, an interrupt) releases the names that it has
/// acquired. It does so in the rest of its time, for at most one command timeout. What gets no
/// reply in that time is released in the background. When a call ends with the lock, every name has
/// its whole lease, less at most 100 ms, or an eighth of the lease if that is shorter, however long
/// the call has waited.
///
/// There is one wait, one deadline and one interrupt for all names. The names of one client are
/// requested together: to acquire all of them takes one round trip, and to release them another. If
/// another client holds one of them, the call waits for that one. Meanwhile it holds the names
/// before it in the order of their keys, and releases those after it. So do not acquire more names
/// together than the work needs.
///
/// # No deadlock
///
/// The names are acquired in the order of their keys, in whatever order they are given. Locks of
/// several clients have no order that all programs agree on. For these, a call that holds some
/// locks and waits for another one releases them after 0.5 to 1.5 seconds (random), and then waits
/// for that one first. It also does so after half of a lease that is not
/// [renewed](Lease::RENEWED).
///
/// This does not protect a thread that already holds one of the locks. A thread that holds `b` and
/// then acquires `a` and `b` can wait for a thread that holds `a` and waits for `b`. Acquire all
/// names in one call.
///
/// # Results of the methods
///
/// * [`name`](crate::Lock::name): the names in their order, separated by `, `.
/// * An error that concerns one name contains that name: a loss, a key of another type, a server
///   without a reply. [`Error::Interrupted`](crate::Error::Interrupted) and
///   [`Error::NotHeld`](crate::Error::NotHeld) contain all names.
/// * [`hold_count`](crate::Lock::hold_count): the smallest count of all names; 0 once one of them
///   is lost.
/// * [`is_locked`](crate::Lock::is_locked): true if any owner holds any of the names.
///   [`remaining_lease`](crate::Lock::remaining_lease): the longest lease of all names.
/// * [`unlock`](crate::Lock::unlock) releases every name, the last one first, even if one of them
///   fails. It returns the first error, a loss before other errors. If the thread does not hold all
///   names without a guard, it returns [`Error::NotHeld`](crate::Error::NotHeld) and releases
///   nothing.
///
/// An empty list of names, a name that occurs twice, and an invalid name are an
/// [`Error::Config`](crate::Error::Config) of the first call.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let (from, to) = ("account:7", "account:4");
/// let guard = client.multi_lock([from, to]).acquire()?;
/// assert!(client.reentrant_lock(to).is_locked()?);
/// guard.check()?; // Both are held.
/// guard.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MultiLock(Several);

impl MultiLock {
    pub(crate) fn new<N: AsRef<str>>(core: &Arc<Core>, names: impl IntoIterator<Item = N>) -> Self {
        let lock = |name: N| Handle::new(Arc::clone(core), name.as_ref(), LockKind::Plain);
        Self(Several::new(names.into_iter().map(lock).collect()))
    }

    /// Combines locks of several clients, which may be on several servers, into one lock. Never
    /// fails and sends nothing.
    ///
    /// Two clients of one server are two owners. If both have the same name in this list, the lock
    /// can never be acquired.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let servers = [(); 2].map(|()| redis_test::server::RedisServer::new());
    /// # let urls = [0, 1].map(|server: usize| format!("redis://{}", servers[server].addr));
    /// use leasehold::{LockClient, MultiLock};
    ///
    /// let stock = LockClient::connect(&urls[0])?.reentrant_lock("stock");
    /// let orders = LockClient::connect(&urls[1])?.reentrant_lock("orders");
    /// let both = MultiLock::over([&stock, &orders]);
    /// both.lock()?;
    /// assert!(stock.is_held_by_current_thread() && orders.is_held_by_current_thread());
    /// both.unlock()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn over<L: Borrow<ReentrantLock>>(locks: impl IntoIterator<Item = L>) -> Self {
        let handle = |lock: L| lock.borrow().handle().clone();
        Self(Several::new(locks.into_iter().map(handle).collect()))
    }
}

lock_by_handle!(MultiLock);
