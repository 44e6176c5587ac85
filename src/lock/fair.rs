//! The fair lock, which clients acquire in the order in which they began to wait.

use super::methods::*;

/// A reentrant lock that clients acquire first come, first served, whichever process a client is
/// in. Made by [`LockClient::fair_lock`](crate::LockClient::fair_lock).
///
/// Use it to keep the order with threads of Redisson, too. Clients of this crate also get a
/// [`ReentrantLock`](crate::ReentrantLock) in their order, which [costs](crate::guide::costs) less:
/// while clients wait for a fair lock, each waiting client asks Redis again and again.
///
/// # Order
///
/// Clients acquire the lock first come, first served, and dead clients delay no other client
/// ([details](crate#6-order), [exceptions](crate#3-the-end-of-a-dead-process)). A client keeps its
/// place until it has the lock, or until the thread that waited first gives up. The next thread of
/// the client then gets a place at the end. Threads have equal shares, whichever clients they
/// belong to; with fixed leases, which are not handed over, clients have equal shares.
///
/// A call that does not wait ([`try_acquire_now`](Self::try_acquire_now)) does not overtake a
/// client that waits, and gets no place. A client that
/// [lingers](crate::LockClientBuilder::linger) can take an idle lock again although others wait.
///
/// # Redisson
///
/// The format in Redis is that of Redisson's `RFairLock`, so clients of both wait in one queue. Two
/// weaknesses of Redisson show on a shared name: a thread of Java that dies while it has the first
/// place delays the others by up to five minutes, and Redisson compares the ends of places with the
/// clocks of its clients, so a Java client whose clock is fast removes places of live clients. A
/// client of this library whose place was removed goes to the end of the queue. A Java thread that
/// is interrupted does not remove its place, with the same effect as one that dies. If only threads
/// of Java wait behind a dead client of this library, its place lasts for six seconds, and for five
/// minutes longer for each place that was before it when it began to wait behind one of Java.
///
/// # Errors
///
/// Those of [every method](crate::Lock#errors-of-every-method-that-asks-redis). No method panics.
///
/// Use one kind of lock for one name: a [`ReentrantLock`](crate::ReentrantLock) does not see the
/// queue of a fair lock. While a client of this library holds the name as a plain or fenced lock,
/// an acquire fails with [`Error::InvalidArgument`](crate::Error::InvalidArgument), and so does an
/// acquire of a plain or fenced lock while the name is held as a fair lock. For a name that a Java
/// client holds, only the latter fails, and only while others wait for it in the queue.
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
pub struct FairLock(pub(crate) SingleLock);

lock_by_handle!(FairLock);
