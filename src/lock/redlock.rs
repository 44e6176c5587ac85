//! Redlock: one lock on several independent servers.

use std::sync::Arc;
use std::time::Duration;

use super::LockGuard;
use super::handle::{Handle, Kind, Take};
use super::majority::Majority;
use super::methods::lock_by_handle;
use crate::base::interrupt::Interrupt;
use crate::core::Core;
use crate::error::Result;
use crate::lease::Lease;
use crate::local::Hold;

/// A reentrant lock that a majority of several independent servers must grant, so that it outlives the
/// failure of the others. Made by [`RedLock::new`]; the algorithm is
/// [Redlock](https://redis.io/docs/latest/develop/use/patterns/distributed-locks/), by Salvatore Sanfilippo.
///
/// All servers are asked at once, in parallel. The lock is had if more than half of them grant it while their
/// leases last; else what was granted is given back. With 3 servers one may be dead or hang, with 5 two, and
/// calls go on at the speed of the others: a server that does not answer is left out for a while, which
/// doubles from 100 ms to 3 s. Where several callers get a part of the servers each, they give it back and try
/// again, a call that does not wait included, for as long as one command may take: one of them has the lock in the end.
/// One that got no part says `false` meanwhile: others have the lock, or are about to settle who does.
///
/// # The hold
///
/// Each server's part has its own lease, which counts from before it was asked, and is renewed by its own
/// client's watchdog, so that a dead server delays no other's. The hold stands as long as more than half of the
/// servers have it, by what they answered and by the local clock. [`LockGuard::remaining`] is how long that is
/// so without another renewal. A server that comes back without its data is not won back by a hold
/// under way: the hold goes on with the others.
///
/// # What it needs, and what it cannot give
///
/// * **Independent servers**: no replicas of each other, no failover between them. A server that is replaced by
///   a replica that lacks the newest writes grants the lock a second time. So does one that restarts without
///   its data: keep it away for one lease, or let it write every change to disk (`appendfsync always`).
///   [`min_replicas`](crate::LockClientBuilder::min_replicas) plays no part.
/// * **Clocks that run at about one speed.** A hold ends here before its lease, by an allowance for drift, but
///   not for a clock that is set: Redis counts leases by the wall clock. Let no server's clock step.
/// * **It is no proof against pauses.** A process that stops after its last
///   [`check`](LockGuard::check), for longer than its lease, writes when somebody else has the lock. Only what
///   is written to can refuse that, by a [fencing token](crate::FencedGuard::fencing_token), and Redlock
///   has none: the servers count apart. If a double execution does harm, and not only wastes work, fence the
///   writes: see Martin Kleppmann, "How to do distributed locking" (2016), and for the other side Salvatore
///   Sanfilippo, "Is Redlock safe?" (2016).
/// * **All users of the name use the same servers**, by this kind of lock.
///
/// # What it tells
///
/// [`is_locked`](crate::Lock::is_locked): whether more than half of the servers have a hold of it;
/// [`remaining_lease`](crate::Lock::remaining_lease): for how long. An
/// [`Error::Unavailable`](crate::Error::Unavailable) names the servers that did not answer, when too few did. Each
/// client counts its part in its [`Stats`](crate::Stats) and tells of its loss in its
/// [`LockEvent`](crate::LockEvent)s, also while a majority still stands.
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
/// guard.check()?;     // more than half of the servers have it
/// guard.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedLock(Majority);

impl RedLock {
    pub(crate) fn over<'a>(cores: impl Iterator<Item = &'a Arc<Core>>, name: &str) -> Self {
        let lock = |core| Handle::new(Arc::clone(core), name, Kind::Plain);
        Self(Majority::new(name, cores.map(lock).collect()))
    }
}

lock_by_handle!(RedLock);
