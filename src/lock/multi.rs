//! Several names as one lock.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use super::handle::{Handle, Kind, Take};
use super::methods::lock_by_handle;
use super::several::Several;
use super::{LockGuard, ReentrantLock};
use crate::base::interrupt::Interrupt;
use crate::core::Core;
use crate::error::Result;
use crate::lease::Lease;
use crate::local::Hold;

/// Several reentrant locks that are taken together: all of them, or none. Made by
/// [`LockClient::multi_lock`](crate::LockClient::multi_lock) for several names of one client, and by
/// [`over`](Self::over) for locks of several.
///
/// Each name is the same lock as a [`ReentrantLock`] of that name, for this program and all others; each
/// is counted, renewed, listed in [`Stats`](crate::Stats) and told of in
/// [`LockEvent`](crate::LockEvent)s on its own.
///
/// # All or none
///
/// A call that ends without the lock (false, an error, an interrupt, a panic) gives back what it
/// has taken. It has the rest of its time for that, at most one command time-out; what gets no
/// reply in that time is released in the background. When a call ends with the lock, every part has
/// its whole lease, less at most 100 ms or an eighth of it, however long the call has waited for
/// another.
///
/// There is one wait, one deadline and one interrupt for all names. Names of one client are asked
/// for together: to take all of them is one round trip, and to give them back is another. If
/// another client holds one of them, that one is waited for. Those before it in the order of their
/// keys are held meanwhile, and those behind it are given back. So take no more names together than
/// the work needs.
///
/// # No deadlock
///
/// In whatever order the names are given, the locks are taken in the order of their keys. Where programs
/// could still see the order differently, because the locks are those of several clients, nobody waits for
/// long while it holds others: after a second or so it gives them back, and waits for the one that it
/// lacks first. The same holds for half of a lease that is not [renewed](Lease::RENEWED).
///
/// No order helps a thread that comes with a lock in hand: whoever holds `b` and asks for `a` and `b`
/// can wait for somebody who holds `a` and waits for `b`. Take all names in one call.
///
/// # What it tells
///
/// * [`name`](crate::Lock::name): the names in their order, with `, ` between.
/// * An error names the part that it is about, where it is about one: a loss, a key of another type, a server that
///   does not answer. [`Error::Interrupted`](crate::Error::Interrupted) and
///   [`Error::NotHeld`](crate::Error::NotHeld) name the whole.
/// * [`hold_count`](crate::Lock::hold_count): the least of all; 0 once one of them is lost.
/// * [`is_locked`](crate::Lock::is_locked): whether anybody holds any of them, so that all are not to be had.
///   [`remaining_lease`](crate::Lock::remaining_lease): the longest that any of them is held.
/// * [`unlock`](crate::Lock::unlock) gives every one back, the last one first, whatever becomes of the others, and tells
///   the first error, a loss before all others. A thread that does not hold all of them without a
///   guard gets [`Error::NotHeld`](crate::Error::NotHeld), and keeps what it has of them.
///
/// No names at all, a name that is there twice, and a bad name are an
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
/// guard.check()?;     // both are held
/// guard.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MultiLock(Several);

impl MultiLock {
    pub(crate) fn new<N: AsRef<str>>(core: &Arc<Core>, names: impl IntoIterator<Item = N>) -> Self {
        let lock = |name: N| Handle::new(Arc::clone(core), name.as_ref(), Kind::Plain);
        Self(Several::new(names.into_iter().map(lock).collect()))
    }

    /// The locks of several clients, which may be on several servers, as one. Never fails and asks nobody.
    ///
    /// Two clients of one server are two owners: one name by both of them is never to be had.
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
