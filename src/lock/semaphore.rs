//! The semaphore: permits without an owner.

use std::fmt;
use std::time::Duration;

use super::debug::show_handle;
use super::forward::forward;
use crate::base::Interrupt;
use crate::engine::Number;
use crate::error::Result;

/// A number of permits that processes share: Java's `Semaphore`. Made by
/// [`LockClient::semaphore`](crate::LockClient::semaphore).
///
/// A semaphore starts with the number of permits that the first caller of
/// [`try_set_permits`](Self::try_set_permits) sets. Before that, no permit is free. Any thread of
/// any client takes permits, and any thread returns some, not only the one that took them.
///
/// **Permits have no owner and no lease.** A process that dies with permits does not return them.
/// To make up for that, an operator calls [`add_permits`](Self::add_permits).
///
/// If Redis loses the semaphore, as in a restart without its data, no permit is free until some are
/// set, added or released. Those that were taken before can be released, and add to the new number.
///
/// # Order
///
/// While no thread of a client waits, its threads send their requests at the same time, and Redis
/// decides their order. The threads that wait get permits in the order of their calls, and one of
/// them listens for all. No thread passes those of its client that wait, however few permits it
/// wants: it waits behind them, and a call that does not wait fails.
///
/// Clients get permits in the order in which they began to wait ([details](crate#6-order)).
///
/// # Lost replies
///
/// A lost reply takes or returns no permit twice. Redis records each change of this client for two
/// minutes, in a hash beside the semaphore, and a repeated request gets the recorded reply. A call
/// repeats its request within its time limit. If it still gets no clear reply, it fails with
/// [`Error::Unavailable`](crate::Error::Unavailable), or with
/// [`Error::NotReleased`](crate::Error::NotReleased) if it returns permits. Then it is unknown
/// whether Redis has executed the request, and the client continues in the background. It repeats a
/// request for at most a minute after the call began to send it, and undoes or cancels one for at
/// most a minute after the call gave it up:
///
/// | call | in the background | the caller |
/// |---|---|---|
/// | acquires | returns the permits, if Redis has given any | has no permits, and may try again |
/// | [`release`], [`add_permits`] | repeats it | must not repeat it |
/// | [`drain`](Self::drain) | undoes it | has no permits, and may try again |
/// | [`try_set_permits`] | cancels it, unless Redis has executed it | may try again |
///
/// If Redis cannot be reached for a minute, the process ends, or the last handle of the client is
/// dropped, permits may be missing: those of an acquire that Redis has executed, or of a release
/// that it has not. None is there twice. The exceptions: Redis loses its newest writes in a
/// failover, and a server that was paused may execute a copy of a request more than two minutes
/// later.
///
/// [`release`]: Self::release
/// [`add_permits`]: Self::add_permits
/// [`try_set_permits`]: Self::try_set_permits
///
/// If the client requires [replicas](crate::LockClientBuilder::min_replicas), they must confirm
/// each acquire. Permits that too few replicas confirm are returned, and the call fails with
/// [`Error::TooFewReplicas`](crate::Error::TooFewReplicas) at the end of its wait.
///
/// # Redisson
///
/// The format in Redis is that of Redisson's `RSemaphore`, so Java and Rust processes share the
/// permits. Redisson's weaknesses remain for its own calls on a shared name: it may take or return
/// permits twice when a reply is lost, a waiting thread may miss a message and wait indefinitely,
/// and its `drainPermits` and `addPermits` remove an expiry of the key. The calls of this type keep
/// the expiry.
///
/// # Numbers
///
/// A number of permits that can be negative is an `i64`, any other is a `u32`. All are bounded by
/// Java's `int`.
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
/// use std::time::Duration;
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let slots = client.semaphore("report:slots");
/// slots.try_set_permits(4)?;              // true for the first process only
///
/// let permit = slots.acquire_guard(1)?;   // waits while all permits are taken
/// // At most four processes are here at the same time. Every way out releases the permit.
/// drop(permit);
///
/// assert!(!slots.try_acquire(5, Duration::from_millis(20))?);
/// assert_eq!(slots.available()?, 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore(pub(crate) Number);

impl Semaphore {
    forward! { to 0:
        /// Returns the name of the semaphore, without the client's namespace.
        #[must_use]
        pub fn name(&self) -> &str;

        /// Sets the number of free permits, if the semaphore does not exist yet. Returns true if
        /// this call set it; false if the semaphore exists, with any number of permits.
        ///
        /// `permits`: 0 to 2,147,483,647.
        ///
        /// # Errors
        ///
        /// [Those of every method](Self#errors).
        /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), without a request, if
        /// `permits` is too large. [`Error::Unavailable`](crate::Error::Unavailable) after three
        /// command timeouts.
        pub fn try_set_permits(&self, permits: u32) -> Result<bool>;
    }

    /// Takes `permits` permits, all of them or none, and waits until that many are free.
    ///
    /// `permits`: 0 to 2,147,483,647. With 0, it returns at once and sends nothing.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors).
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), without a request, if `permits`
    /// is too large. [`Error::Unavailable`](crate::Error::Unavailable) if a request has had no
    /// reply for [`give_up_after`](crate::LockClientBuilder::give_up_after).
    pub fn acquire(&self, permits: u32) -> Result<()> {
        self.0.acquire(permits, None, None).map(drop)
    }

    /// Takes `permits` permits, all of them or none, if that many are free within `wait`. Returns
    /// false if they are not. [`Duration::ZERO`] means: do not wait. [`Duration::MAX`] means: wait
    /// indefinitely.
    ///
    /// `permits`: 0 to 2,147,483,647. With 0, it returns true at once and sends nothing.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors).
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), without a request, if `permits`
    /// is too large. [`Error::Unavailable`](crate::Error::Unavailable) if there is no reply within
    /// `wait`, or within one command timeout if that is longer, and 250 ms more; but after
    /// [`give_up_after`](crate::LockClientBuilder::give_up_after) without any reply.
    #[must_use = "false means that no permit was taken"]
    pub fn try_acquire(&self, permits: u32, wait: Duration) -> Result<bool> {
        self.0.acquire(permits, Some(wait), None)
    }

    /// Takes `permits` permits, all of them or none, and waits until that many are free or
    /// `interrupt` is raised.
    ///
    /// `permits`: 0 to 2,147,483,647. With 0, it sends nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted), and those of [`acquire`](Self::acquire).
    /// It waits for replies until the interrupt is raised, so it never returns
    /// [`Error::Unavailable`](crate::Error::Unavailable).
    pub fn acquire_interruptibly(&self, permits: u32, interrupt: &Interrupt) -> Result<()> {
        self.0.acquire(permits, None, Some(interrupt)).map(drop)
    }

    /// Takes `permits` permits, all of them or none, if that many are free within `wait`. Returns
    /// false if they are not. The wait ends with an error as soon as `interrupt` is raised.
    ///
    /// `permits`: 0 to 2,147,483,647. With 0, it sends nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted), and those of
    /// [`try_acquire`](Self::try_acquire).
    #[must_use = "false means that no permit was taken"]
    pub fn try_acquire_interruptibly(
        &self,
        permits: u32,
        wait: Duration,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        self.0.acquire(permits, Some(wait), Some(interrupt))
    }

    forward! { to 0:
        /// Returns `permits` permits, and wakes threads that wait for some. Does not check who took
        /// them: a release without an acquire adds permits. A semaphore without a key is created,
        /// as by Redisson.
        ///
        /// `permits`: 0 to 2,147,483,647. With 0, it returns at once and sends nothing.
        ///
        /// # Errors
        ///
        /// [Those of every method](Self#errors).
        /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), and nothing is changed, if
        /// `permits` is too large or more than 2,147,483,647 permits would be free.
        /// [`Error::NotReleased`](crate::Error::NotReleased) after three command timeouts; the
        /// client repeats the release in the background ([lost replies](Self#lost-replies)).
        pub fn release(&self, permits: u32) -> Result<()>;

        /// Asks Redis how many permits are free; 0 for a semaphore without a key. The number is
        /// negative if [`add_permits`](Self::add_permits) has removed more than were free.
        ///
        /// # Errors
        ///
        /// [Those of every method](Self#errors). [`Error::Unavailable`](crate::Error::Unavailable)
        /// after one command timeout.
        pub fn available(&self) -> Result<i64>;

        /// Takes all free permits, and returns how many these were. If the number is negative, it
        /// is set to zero and returned.
        ///
        /// # Errors
        ///
        /// [Those of every method](Self#errors). [`Error::Unavailable`](crate::Error::Unavailable)
        /// after three command timeouts.
        pub fn drain(&self) -> Result<i64>;

        /// Adds `permits` free permits. A negative number removes permits: the number of free ones
        /// can become negative, and then acquires wait until enough were returned. A semaphore
        /// without a key is created.
        ///
        /// With 0, it returns at once and sends nothing.
        ///
        /// # Errors
        ///
        /// Those of [`release`](Self::release).
        pub fn add_permits(&self, permits: i64) -> Result<()>;
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = [self.0.node()].into_iter();
        show_handle(f, "Semaphore", self.name(), nodes, None)
    }
}
