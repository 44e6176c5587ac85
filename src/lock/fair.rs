//! The fair lock, which clients acquire in the order in which they began to wait.

use std::sync::Arc;
use std::time::Duration;

use super::LockGuard;
use super::methods::lock_by_handle;
use crate::base::interrupt::Interrupt;
use crate::core::Core;
use crate::engine::{Part, Parts};
use crate::error::Result;
use crate::lease::Lease;
use crate::local::Hold;
use crate::protocol::Fair;

/// A reentrant lock that clients acquire first come, first served, whichever process they are in.
/// Made by [`LockClient::fair_lock`](crate::LockClient::fair_lock).
///
/// Use it where a [`ReentrantLock`](crate::ReentrantLock) would let one client wait for too long.
/// It costs more: each release goes through Redis while other clients wait, and a waiting client
/// sends a request every two seconds.
///
/// # Order
///
/// A client that waits has one place in a queue in Redis: that of the first of its waiting threads.
/// It keeps the place until it has the lock or that thread gives up. The next thread of the client
/// then gets a place at the end. The threads of one client acquire the lock in the order of their
/// calls.
///
/// * The place of a client lasts for six seconds from each of its requests, by the clock of the
///   server. So a client that dies delays the clients behind it by at most that time once the lock
///   is free. Behind a waiting thread of Redisson, which has five minutes, its place ends that much
///   later. The same is true of a thread that gives up while the server does not reply.
/// * While no other client waits, a thread that unlocks can hand the lock over to the next thread
///   of its client without a request, for at most 10 ms after the client acquired it. A client that
///   begins to wait within these 10 ms may see such a hand-over to a thread that came later.
/// * A call that does not wait ([`try_acquire_now`](Self::try_acquire_now)) does not overtake a
///   client that waits, and gets no place.
/// * A client that [lingers](crate::LockClientBuilder::linger) can take an idle lock again although
///   others wait.
///
/// # Redisson
///
/// The format in Redis is that of Redisson's `RFairLock`, so clients of both wait in one queue. Two
/// weaknesses of Redisson show on a shared name: a thread of Java that dies while it has the first
/// place delays the others by up to five minutes, and Redisson compares the ends of places with the
/// clocks of its clients, so a Java client whose clock is fast removes places of live clients. A
/// client of this library whose place was removed goes to the end of the queue. A Java thread that
/// is interrupted does not remove its place, with the same effect as one that dies.
///
/// Use one kind of lock for one name: a [`ReentrantLock`](crate::ReentrantLock) does not see the
/// queue of a free lock.
///
/// # Errors
///
/// Those of [every method](crate::Lock#errors-of-every-method-that-asks-redis). A thread that holds
/// the name as a [`ReentrantLock`](crate::ReentrantLock) gets no error, but a further level of that
/// hold. No method panics.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let lock = client.fair_lock("printer");
/// let guard = lock.acquire()?;
/// guard.unlock()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FairLock(Parts);

impl FairLock {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        Self(Parts::one(Part::new(core, name, &Fair)))
    }
}

lock_by_handle!(FairLock);
