//! The fair lock, which clients acquire in the order in which they began to wait.

use super::methods::*;

/// A reentrant lock that clients acquire first come, first served, whichever process they are in.
/// Made by [`LockClient::fair_lock`](crate::LockClient::fair_lock).
///
/// Use it to keep the order with threads of Redisson, too. Clients of this crate also get a
/// [`ReentrantLock`](crate::ReentrantLock) in their [order](crate#6-order), which costs less: while
/// other clients wait for a fair lock, its releases go through Redis, and a waiting client sends a
/// request every two seconds. In a long queue it sends fewer, so that all clients together send at
/// most 40 a second.
///
/// # Order
///
/// A client that waits has one place in a queue in Redis: that of the first of its waiting threads.
/// It keeps the place until it has the lock or that thread gives up. The next thread of the client
/// then gets a place at the end. The threads of one client acquire the lock in the order of their
/// calls.
///
/// When its turn comes, the client hands the lock over to the threads that waited when it took the
/// place, one after another, also while other clients wait. So threads have equal shares, whichever
/// clients they belong to. Locks with a fixed lease are not handed over: then clients have equal
/// shares.
///
/// * A client that dies delays no other client. When the lock is free and the client with the first
///   place does not listen for the release any more, a script removes its place and notifies the
///   next client. So a client loses its place if its subscriber has lost the connection at that
///   moment, as after a restart of the server or a failover. It then waits at the end of the queue.
/// * Where Redis does not know that a client is dead, its place ends six seconds after its last
///   request, by the clock of the server. That is so if its host vanished or is paused, if it died
///   before it listened, or if it may not subscribe. A place is also left until then by a thread
///   that gives up while the server does not reply. Several such places end together. If more than
///   66 places are in the queue, or threads of Redisson wait, each of them may take six seconds
///   after the lock is free.
/// * A client that got the lock without waiting can hand it over to its next threads without a
///   request, for at most 10 ms. A client that begins to wait within these 10 ms may see such a
///   hand-over to a thread that came later.
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
/// is interrupted does not remove its place, with the same effect as one that dies. If only threads
/// of Java wait behind a dead client of this library, its place lasts for six seconds, and for five
/// minutes longer for each place that was before it when it began to wait behind one of Java.
///
/// # Errors
///
/// Those of [every method](crate::Lock#errors-of-every-method-that-asks-redis). No method panics.
///
/// Use one kind of lock for one name: a [`ReentrantLock`](crate::ReentrantLock) does not see the
/// queue of a free lock. While a client of this library holds the name as a plain or fenced lock,
/// an acquire fails with [`Error::Config`](crate::Error::Config), and so does an acquire of a plain
/// or fenced lock while the name is held as a fair lock. For a name that a Java client holds, only
/// the latter fails, and only while others wait for it in the queue.
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
pub struct FairLock(pub(crate) Parts);

lock_by_handle!(FairLock);
