//! Redlock: one lock on several independent servers.

use super::methods::*;

/// A reentrant lock that a majority of several independent servers must grant, so that it survives
/// the failure of the other servers. Made by [`RedLock::new`]. The algorithm is
/// [Redlock](https://redis.io/docs/latest/develop/use/patterns/distributed-locks/), by Salvatore
/// Sanfilippo.
///
/// A call requests the lock from all servers in parallel. It acquires the lock if more than half of
/// the servers grant it before their leases end. Otherwise it releases what was granted. With 3
/// servers one may be dead or hang, with 5 servers two; calls then take as long as the other
/// servers need. A server that does not reply is skipped, for up to 3 s at a time.
///
/// A nested acquire sends no request, unless it needs a longer lease than the lock has. A thread
/// that unlocks can hand the lock over to the next waiting thread of the same clients without a
/// request, as with a [`ReentrantLock`](crate::ReentrantLock#order): the lock of the first server
/// directly, and those of the others by keeping them idle for that thread, for up to half a second.
///
/// If several callers get some servers each, they release them and try again until one of them has
/// the lock. A call without a wait does so, too, for at most one command timeout. A call without a
/// wait that gets no server returns false: other callers have the lock, or are about to acquire it.
///
/// # The hold
///
/// The lease at each server counts from before the request to that server. Each server's client
/// renews it with its own watchdog, so a dead server does not delay the others. The lock is held
/// while more than half of the servers have it, by their replies and by the local clock.
/// [`LockGuard::remaining`] tells how long that lasts without another renewal. If a server restarts
/// without its data, a hold does not acquire that server again: it continues with the others.
///
/// # Requirements and limits
///
/// * **Independent servers**: no server is a replica of another, and there is no failover. A
///   replica that replaces its server without the newest writes grants the lock a second time. So
///   does a server that restarts without its data: do not start it before one lease has passed, or
///   let it write every change to disk (`appendfsync always`). The setting
///   [`min_replicas`](crate::LockClientBuilder::min_replicas) has no effect.
/// * **Clocks of about the same speed.** A hold ends in this process before its lease ends, with an
///   allowance for drift, but not for a clock that is set. Redis measures leases by its wall clock,
///   so do not let a server's clock jump.
/// * **No fencing tokens**, because the servers count separately. So nothing rejects the late write
///   of a process that was paused for longer than its lease ([limits](crate#limits)). If a second
///   execution does harm, and does not only waste work, use a [fenced lock](crate::FencedLock): see
///   [deployments](crate::guide::deployments).
/// * **All users of a name use the same servers**, and only this kind of lock.
///
/// # Results of the methods
///
/// * [`is_locked`](crate::Lock::is_locked): true if more than half of the servers have the lock.
///   [`remaining`](crate::Lock::remaining): for how long more than half of them have
///   it.
/// * If too few servers reply, [`Error::Unavailable`](crate::Error::Unavailable) names those that
///   did not.
/// * Each client counts its server's part in its [`Stats`](crate::Stats), and reports the loss of
///   that part in its [`LockEvent`](crate::LockEvent)s, even while a majority is left.
/// * There is no `inspect`, `holder` or `force_unlock` for all servers, because each server can
///   have another owner: call those of each client, such as
///   [`LockClient::force_unlock`](crate::LockClient::force_unlock), with the name of the lock.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let servers = [(); 3].map(|()| redis_test::server::RedisServer::new());
/// # let urls = [0, 1, 2].map(|server: usize| format!("redis://{}", servers[server].addr));
/// use leasehold::{LockClient, RedLock};
///
/// let clients = [
///     LockClient::connect(&urls[0])?,
///     LockClient::connect(&urls[1])?,
///     LockClient::connect(&urls[2])?,
/// ];
/// let lock = RedLock::new(&clients, "order:pay");
/// let guard = lock.acquire()?;
/// guard.check()?; // More than half of the servers have the lock.
/// guard.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedLock(pub(crate) Composite);

lock_by_handle!(RedLock);
