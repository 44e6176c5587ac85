//! The latch: lets threads wait until others have counted it down to zero.

use std::fmt;
use std::time::Duration;

use super::debug::show_handle;
use super::forward::forward;
use crate::base::Interrupt;
use crate::engine::Number;
use crate::error::Result;

/// A count that processes share. Threads wait until it is zero: Java's `CountDownLatch`. Made by
/// [`LockClient::count_down_latch`](crate::LockClient::count_down_latch).
///
/// A latch without a count is open: its count is zero, and no thread waits for it. So set the count
/// before other processes start to wait. When the count is zero again, its key is deleted, and a
/// new count can be set. So a latch that Redis loses, as in a restart without its data, is open,
/// too: the threads that wait for it return.
///
/// All waiting threads of a client share one subscription. A message of the server wakes them, and
/// each of them reads the count. While they wait, they send no request, except one about every half
/// minute, which notices a latch that was deleted without a message.
///
/// # Lost replies
///
/// A lost reply counts down once. Redis records each change of this client for two minutes, in a
/// hash beside the latch, and a repeated request gets the recorded reply. If
/// [`count_down`](Self::count_down) gets no clear reply in its time, it fails with
/// [`Error::NotReleased`](crate::Error::NotReleased), and the client repeats it in the background
/// for up to a minute. The caller must not repeat it. If Redis cannot be reached for a minute, the
/// process ends, or the last handle of the client is dropped, the count may be too large, and never
/// too small; except that Redis loses its newest writes in a failover, and that a server that was
/// paused may execute a copy of a request more than two minutes later.
///
/// If [`try_set_count`](Self::try_set_count) gets no clear reply, the client cancels it in the
/// background, unless Redis has executed it. With the same exceptions, a late request does not
/// close a latch that has opened since.
///
/// # Redisson
///
/// The format in Redis is that of Redisson's `RCountDownLatch`, so Java and Rust processes share
/// the count. Redisson's weaknesses remain for its own calls on a shared name: its thread may miss
/// a message and wait indefinitely, and its `delete` wakes no waiting thread of Java. Threads of
/// this type notice both within about half a minute.
///
/// Redisson puts braces around the name in its channel, even if the name has braces. So in a
/// cluster, a name with braces has its key and its channel in different slots: calls fail with
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument).
///
/// # Errors
///
/// Those of [every method](crate::Lock#errors-of-every-method-that-asks-redis) of locks, for each
/// method that asks Redis. [`Error::WrongType`](crate::Error::WrongType) if the key holds something
/// else than a number; nothing is changed then. No method panics.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use std::thread;
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let loaded = client.count_down_latch("import:loaded");
/// assert!(loaded.try_set_count(2)?);
///
/// for _ in 0..2 {
///     let loaded = loaded.clone();    // usually in another process
///     thread::spawn(move || loaded.count_down());
/// }
/// loaded.wait()?;
/// assert_eq!(loaded.count()?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CountDownLatch(pub(crate) Number);

impl CountDownLatch {
    forward! { to 0:
        /// Returns the name of the latch, without the client's namespace.
        #[must_use]
        pub fn name(&self) -> &str;

        /// Sets the count, if the latch has none. Returns true if this call set it; false if the
        /// latch has a count.
        ///
        /// `count`: 1 to 2^53 - 1. Redisson also sets a count of 0, whose key stays until someone
        /// counts down; this crate refuses it.
        ///
        /// # Errors
        ///
        /// [Those of every method](Self#errors).
        /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), without a request, if `count`
        /// is out of bounds. [`Error::Unavailable`](crate::Error::Unavailable) after three command
        /// timeouts: the count may have been set, and a retry then returns false.
        pub fn try_set_count(&self, count: u64) -> Result<bool>;

        /// Decreases the count by one, and returns what is left. The call that reaches zero wakes
        /// all waiting threads. Does nothing and returns 0 if the count is zero.
        ///
        /// # Errors
        ///
        /// [Those of every method](Self#errors). [`Error::NotReleased`](crate::Error::NotReleased)
        /// after three command timeouts; the client repeats the call in the background
        /// ([lost replies](Self#lost-replies)).
        pub fn count_down(&self) -> Result<u64>;

        /// Asks Redis for the count; 0 if none is set.
        ///
        /// # Errors
        ///
        /// [Those of every method](Self#errors). [`Error::Unavailable`](crate::Error::Unavailable)
        /// after one command timeout.
        pub fn count(&self) -> Result<u64>;
    }

    /// Waits until the count is zero. Returns at once if no count is set.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors). [`Error::Unavailable`](crate::Error::Unavailable) if a
    /// request has had no reply for
    /// [`give_up_after`](crate::LockClientBuilder::give_up_after).
    pub fn wait(&self) -> Result<()> {
        self.0.wait(None, None).map(drop)
    }

    /// Waits until the count is zero, for at most `wait`. Returns whether it is zero.
    /// [`Duration::ZERO`] means: do not wait. [`Duration::MAX`] means: wait indefinitely.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors). [`Error::Unavailable`](crate::Error::Unavailable) if
    /// there is no reply within `wait`, or within one command timeout if that is longer, and 250 ms
    /// more; but after [`give_up_after`](crate::LockClientBuilder::give_up_after) without any
    /// reply.
    #[must_use = "false means that the count is not zero"]
    pub fn wait_for(&self, wait: Duration) -> Result<bool> {
        self.0.wait(Some(wait), None)
    }

    /// Waits until the count is zero or `interrupt` is raised.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors), and [`Error::Interrupted`](crate::Error::Interrupted).
    /// It waits for replies until the interrupt is raised, so it never returns
    /// [`Error::Unavailable`](crate::Error::Unavailable).
    pub fn wait_interruptibly(&self, interrupt: &Interrupt) -> Result<()> {
        self.0.wait(None, Some(interrupt)).map(drop)
    }

    /// Waits until the count is zero, for at most `wait`. Returns whether it is zero. The wait ends
    /// with an error as soon as `interrupt` is raised.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted), and those of
    /// [`wait_for`](Self::wait_for).
    #[must_use = "false means that the count is not zero"]
    pub fn wait_for_interruptibly(&self, wait: Duration, interrupt: &Interrupt) -> Result<bool> {
        self.0.wait(Some(wait), Some(interrupt))
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = [self.0.node()].into_iter();
        show_handle(f, "CountDownLatch", self.name(), nodes, None)
    }
}
