//! The face of every lock, and what stands behind it.

mod acquire;
mod acquire_batch;
mod debug;
mod fenced;
mod guard;
mod handle;
mod hold_requests;
mod majority;
mod majority_acquire;
mod methods;
mod multi;
mod parts;
mod redlock;
mod reentrant;
mod release;
mod several;
mod ticket;

use std::fmt;
use std::time::Duration;

pub(crate) use debug::Short;
pub use fenced::{FencedGuard, FencedLock};
pub use guard::LockGuard;
pub(crate) use hold_requests::{force_unlock, inspect};
pub use multi::MultiLock;
pub use redlock::RedLock;
pub use reentrant::ReentrantLock;

use crate::base::clock::Moment;
use crate::base::interrupt::Interrupt;
use crate::error::{Error, Result};
use crate::lease::Lease;

/// How often the provided [`Lock::try_lock_interruptibly`] looks at its interrupt.
const INTERRUPT_CHECK: Duration = Duration::from_millis(50);

/// A lock that threads of different processes and machines share; shaped like
/// `java.util.concurrent.locks.Lock`.
///
/// The owner is the OS thread that took the lock: only it can use and unlock it. The trait is
/// dyn-compatible, so code can take `&dyn Lock` and leave the kind of lock to its caller. Each lock
/// type has these methods as its own, too, so only such generic code needs to import the trait.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Lock, LockClient};
///
/// fn pay(lock: &dyn Lock) -> leasehold::Result<()> {
///     let guard = lock.acquire()?;
///     println!("paying under {}", guard.name());
///     guard.unlock()
/// }
///
/// let client = LockClient::connect(url)?;
/// pay(&client.reentrant_lock("order:pay"))?;
/// pay(&client.multi_lock(["account:7", "account:4"]))
/// # }
/// ```
///
/// # Errors of every method that asks Redis
///
/// [`Error::Config`] for a bad name or lease, before anything is sent; [`Error::WrongType`] if the
/// key is not a lock; [`Error::Unavailable`] if Redis gave no clear answer in the time that the
/// method states; [`Error::Redis`] if it refused; [`Error::Forked`] in a process that was forked from
/// the client's. No method panics.
///
/// [`Error::Config`]: crate::Error::Config
/// [`Error::WrongType`]: crate::Error::WrongType
/// [`Error::Unavailable`]: crate::Error::Unavailable
/// [`Error::Redis`]: crate::Error::Redis
/// [`Error::Forked`]: crate::Error::Forked
pub trait Lock: fmt::Debug + Send + Sync {
    /// The name of the lock, without the client's namespace.
    fn name(&self) -> &str;

    /// Takes the lock with [`Lease::RENEWED`], waiting for as long as somebody else holds it.
    ///
    /// If this thread holds it already, it is held once more, and must be unlocked once more. A
    /// thread that ends without unlocking leaves the lock held, and renewed, as long as the client
    /// lives: prefer [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Beside [those of every method](Lock#errors-of-every-method-that-asks-redis):
    /// [`Error::Lost`](crate::Error::Lost) if this thread held the lock, has lost it, and has not
    /// unlocked it since. [`Error::Unavailable`](crate::Error::Unavailable) comes after ten
    /// [command time-outs](crate::LockClientBuilder::command_timeout) without any answer.
    fn lock(&self) -> Result<()> {
        self.lock_with(Lease::RENEWED)
    }

    /// Takes the lock with `lease` and waits while another owner holds it.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock).
    fn lock_with(&self, lease: Lease) -> Result<()>;

    /// Takes the lock if it is to be had within `wait`; false if somebody else holds it then.
    /// [`Duration::ZERO`] means one attempt, or the end of the one that another thread of this process is at;
    /// a `wait` too long for the clock means for ever. What Redis has told another thread of this process that
    /// waits for the lock counts for this call, too.
    ///
    /// If this thread holds it already, it is held once more, and must be unlocked once more.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), but [`Error::Unavailable`](crate::Error::Unavailable) comes at the
    /// end of `wait`, or of one command time-out if that is longer, at most 250 ms later.
    fn try_lock(&self, wait: Duration, lease: Lease) -> Result<bool>;

    /// As [`lock_with`](Self::lock_with), until `interrupt` is raised. While Redis does not answer
    /// this goes on asking, without end; the interrupt is noticed when the attempt under way ends,
    /// within the pool's, the connection's and the command's time-outs together.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::{Error, Interrupt, Lease, LockClient};
    ///
    /// let client = LockClient::connect(url)?;
    /// let lock = client.reentrant_lock("order:pay");
    /// let guard = lock.acquire()?;
    ///
    /// let interrupt = Interrupt::new();
    /// let waiter = {
    ///     let (lock, interrupt) = (lock.clone(), interrupt.clone());
    ///     std::thread::spawn(move || lock.lock_interruptibly(Lease::RENEWED, &interrupt))
    /// };
    /// interrupt.interrupt();
    /// assert!(matches!(waiter.join().unwrap(), Err(Error::Interrupted { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and [`Error::Interrupted`](crate::Error::Interrupted), also if the
    /// interrupt was raised before.
    fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<()>;

    /// Takes the lock with `lease` if it becomes free within `wait`; false if another owner holds it
    /// then. The wait ends with an error as soon as `interrupt` is raised. Java's
    /// `tryLock(time, unit)`, which throws `InterruptedException`.
    ///
    /// [`Duration::ZERO`] means one attempt. A `wait` that is too long for the clock, such as
    /// [`Duration::MAX`], means indefinitely. The interrupt is noticed when the attempt under way
    /// ends, within the pool's, the connection's and the command's timeouts together.
    ///
    /// The locks of this crate wait in one piece and keep their place in the queue. The provided
    /// method, for other implementations, calls [`try_lock`](Self::try_lock) for 50 ms at a time.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use std::time::Duration;
    /// use leasehold::{Error, Interrupt, Lease, LockClient};
    ///
    /// let lock = LockClient::connect(url)?.reentrant_lock("order:pay");
    /// let guard = lock.acquire()?;
    ///
    /// let interrupt = Interrupt::new();
    /// let waiter = {
    ///     let (lock, interrupt) = (lock.clone(), interrupt.clone());
    ///     let wait = Duration::from_secs(60);
    ///     std::thread::spawn(move || lock.try_lock_interruptibly(wait, Lease::RENEWED, &interrupt))
    /// };
    /// interrupt.interrupt();
    /// assert!(matches!(waiter.join().unwrap(), Err(Error::Interrupted { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock), and
    /// [`Error::Interrupted`](crate::Error::Interrupted), also if the interrupt was raised before.
    /// If the wait is indefinite, [`Error::Unavailable`](crate::Error::Unavailable) comes after ten
    /// [command timeouts](crate::LockClientBuilder::command_timeout) without any reply.
    fn try_lock_interruptibly(
        &self,
        wait: Duration,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let end = Moment::now().after(wait);
        loop {
            if interrupt.is_interrupted() {
                let lock = self.name().into();
                return Err(Error::Interrupted { lock });
            }
            if self.try_lock(end.left().min(INTERRUPT_CHECK), lease)? {
                return Ok(true);
            }
            if end.is_past() {
                return Ok(false);
            }
        }
    }

    /// Gives back the newest level of this thread that was taken without a guard; the last level
    /// frees the lock.
    ///
    /// A level with a guard is given back by its guard alone, so no call unlocks a lock whose guard
    /// still exists. No call gives back the level of a guard that was forgotten
    /// ([`std::mem::forget`]).
    ///
    /// Unless the error is [`Error::NotHeld`](crate::Error::NotHeld), the level is over, whatever
    /// the result: an error tells what became of it, and calling again gives back the next one.
    ///
    /// # Errors
    ///
    /// [`Error::NotHeld`](crate::Error::NotHeld) if this thread does not hold the lock, or if
    /// guards hold all its levels: drop the guard instead. Nothing is changed then;
    /// [`Error::Lost`](crate::Error::Lost) if it did and lost it, so that the work may have run
    /// beside somebody else's; nobody else's hold is touched then.
    /// [`Error::Unavailable`](crate::Error::Unavailable) after three command time-outs without an
    /// answer: the release goes on in the background, and the lease ends the hold at the latest. It
    /// comes, too, when a failover fell into this call and the new server does not know the hold.
    fn unlock(&self) -> Result<()>;

    /// Takes the lock with [`Lease::RENEWED`] and waits while another owner holds it. The guard
    /// unlocks when it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock).
    fn acquire(&self) -> Result<LockGuard>;

    /// Takes the lock with `lease` and waits while another owner holds it. The guard unlocks when
    /// it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Self::lock).
    fn acquire_with(&self, lease: Lease) -> Result<LockGuard> {
        self.lock_with(lease)?;
        with_guard(self, lease)
    }

    /// Takes the lock if it becomes free within `wait`; `None` if another owner holds it then. The
    /// guard unlocks when it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock).
    fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<LockGuard>>;

    /// Takes the lock with [`Lease::RENEWED`] if it is free; `None` if another owner holds it. The
    /// guard unlocks when it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock).
    fn try_acquire_now(&self) -> Result<Option<LockGuard>> {
        self.try_acquire(Duration::ZERO, Lease::RENEWED)
    }

    /// Takes the lock with `lease` and waits while another owner holds it, until `interrupt` is
    /// raised. The guard unlocks when it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`lock_interruptibly`](Self::lock_interruptibly).
    fn acquire_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<LockGuard> {
        self.lock_interruptibly(lease, interrupt)?;
        with_guard(self, lease)
    }

    /// Takes the lock with `lease` if it becomes free within `wait`; `None` if another owner holds
    /// it then. The wait ends with an error as soon as `interrupt` is raised. The guard unlocks when
    /// it is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_interruptibly`](Self::try_lock_interruptibly).
    fn try_acquire_interruptibly(
        &self,
        wait: Duration,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<Option<LockGuard>> {
        if !self.try_lock_interruptibly(wait, lease, interrupt)? {
            return Ok(None);
        }
        with_guard(self, lease).map(Some)
    }

    /// Whether this thread holds the lock, as far as this process knows. Asks nobody.
    fn is_held_by_current_thread(&self) -> bool {
        self.hold_count() > 0
    }

    /// How many times this thread holds the lock, as far as this process knows; 0 once it is lost.
    /// Asks nobody.
    fn hold_count(&self) -> u32;

    /// Whether anybody holds the lock, as Redis knows it.
    ///
    /// # Errors
    ///
    /// [Those of every method](Lock#errors-of-every-method-that-asks-redis); `Unavailable` after
    /// one command time-out.
    fn is_locked(&self) -> Result<bool>;

    /// How much of the lease is left, whoever holds the lock, as Redis knows it; `None` if nobody
    /// does, and [`Duration::MAX`] for a foreign hold that never expires.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Self::is_locked).
    fn remaining_lease(&self) -> Result<Option<Duration>>;
}

/// Exchanges a level that this thread has just taken for one with a guard.
fn with_guard<L: Lock + ?Sized>(lock: &L, lease: Lease) -> Result<LockGuard> {
    // This thread holds the lock, so nothing is waited for.
    let guard = lock.try_acquire(Duration::ZERO, lease);
    lock.unlock()?;
    guard?.ok_or_else(|| Error::NotHeld {
        lock: lock.name().into(),
    })
}
