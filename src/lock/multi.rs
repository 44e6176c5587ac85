//! A lock on several names at once.

use std::borrow::Borrow;

use super::ReentrantLock;
use super::methods::*;

/// Several reentrant locks that are acquired together: all of them or none. Made by
/// [`LockClient::multi_lock`](crate::LockClient::multi_lock) for several names of one client, and
/// by [`over`](Self::over) for locks of several clients.
///
/// Each name is the same lock as a [`ReentrantLock`] of that name, for this program and for all
/// other programs. Each name is renewed on its own, counts on its own in [`Stats`](crate::Stats),
/// and has its own [`LockEvent`](crate::LockEvent)s, also while a call holds it and waits for
/// another one.
///
/// # All or none
///
/// The names of one client that are on one server, in a cluster in one slot, are acquired by one
/// script call, all or none, and released by another. Those on several servers or in several slots
/// are requested at once. Some servers, such as ElastiCache Serverless, take at most 3,999
/// arguments in a request: there, acquire at most 3,980 names together.
///
/// If a name is not free, the call waits for that name alone, and then requests the others. While
/// it waits for a name, it holds only names that are before that one in the order of
/// [`name`](crate::Lock::name), except beside Redisson: at first for 1.5 s at most, then twice as
/// long each time, but with a fixed lease at most for half of it. Then it returns them and goes on
/// with the name that it waits for.
///
/// A call that ends without the lock (false, an error, an interrupt) releases the names that it has
/// acquired. It does so in the rest of its time, for at most one command timeout. What gets no
/// reply in that time is released in the background. When a call ends with the lock, every name
/// with a fixed or limited lease has the whole of it, less the time in which the call waited for
/// the last replies. Other leases are renewed from the moment on at which the call has got the
/// name.
///
/// There is one wait, one deadline and one interrupt for all names.
///
/// # Turns
///
/// A call gets each name in its turn, even if other clients and threads always want each of them
/// ([details](crate#6-order)). Do not acquire more names together than the work needs.
///
/// # No deadlock
///
/// Calls cannot wait for each other in a circle, in whatever order the names are given: all calls
/// wait in one order. Programs in other languages may use any order, too: while a client of
/// Redisson has the name that a call waits for, the call holds any others, for a few milliseconds
/// at first.
///
/// This does not protect two threads that hold one name each, and then acquire that of the other.
/// Acquire all names in one call.
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
///   [`remaining`](crate::Lock::remaining): the longest lease of all names.
/// * [`unlock`](crate::Lock::unlock) releases every name, even if one of them fails. It returns the
///   first error, a loss before other errors. If the thread does not hold all names without a
///   guard, it returns [`Error::NotHeld`](crate::Error::NotHeld) and releases nothing.
/// * There is no `inspect`, `holder` or `force_unlock` for all names, because each name can have
///   another owner: call those of the [`ReentrantLock`] of each name.
///
/// An empty list of names, a name that occurs twice, and an invalid name are an
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) of the first call.
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
pub struct MultiLock(pub(crate) Composite);

impl MultiLock {
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
    /// let guard = both.acquire()?;
    /// assert!(stock.is_held_by_current_thread() && orders.is_held_by_current_thread());
    /// guard.unlock()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn over<L: Borrow<ReentrantLock>>(locks: impl IntoIterator<Item = L>) -> Self {
        let single = |lock: L| lock.borrow().0.clone();
        Self(Composite::all(locks.into_iter().map(single).collect()))
    }
}

lock_by_handle!(MultiLock);
