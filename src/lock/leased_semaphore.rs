//! The semaphore whose permits have leases.

use std::fmt;
use std::time::Duration;

use super::PermitGuard;
use super::debug::show_handle;
use super::methods::without_limit;
use crate::base::{Interrupt, OwnerId};
use crate::engine::SingleLock;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::protocol::PermitsChange;

/// A number of permits, each with an id and a lease. Made by
/// [`LockClient::leased_semaphore`](crate::LockClient::leased_semaphore).
///
/// It limits how many threads, in all processes and on all machines, do something at the same time.
/// The watchdog renews the leases of the permits that a process has, together with those of its
/// locks. So work of any length keeps its permit, and the permits of a process that dies are
/// available again within one lease.
///
/// A semaphore has no permits until [`try_set_permits`](Self::try_set_permits) or another method
/// sets their number. Its keys in Redis do not expire, unless the number was set by a handle
/// [`with_permits`](Self::with_permits).
///
/// A number of permits that can be negative is an `i64`, any other is a `u32`.
///
/// # Order
///
/// The threads of one client that wait get permits in the order of their calls, and one of them
/// listens for all. A call that does not wait can pass them. Clients get permits in the order in
/// which they began to wait ([details](crate#6-order)).
///
/// # Lost replies
///
/// The client chooses the id of a permit before it sends the request, and a new id for each copy of
/// the request. A later copy takes over the permit of an earlier one, so a lost reply takes no
/// permit twice. It looks for its last seven predecessors: the permit of an even older copy is
/// missing until its lease ends. A copy that Redis executes after the call has ended is undone by a
/// release of its id, which the client sends after it; if that fails, too, the permit is available
/// when its lease ends. The release of an id that has no permit changes nothing.
///
/// # Lost leases
///
/// Redis stores how many permits are available and which are leased, but not how many there are. If
/// the key of the leases is lost (`{NAME}:timeout`; `NAME:timeout` for a name with braces), so are
/// the permits that were leased. Their holders notice it like any other loss, but cannot give them
/// back. [`permits`](Self::permits) is too small then, and [`set_permits`](Self::set_permits)
/// repairs the semaphore. If no permit is left at all, a thread that waits logs a warning.
///
/// # Redisson
///
/// The format in Redis is that of Redisson's `RPermitExpirableSemaphore`: a number of available
/// permits, a sorted set of ids with the ends of their leases, and the same messages. So Java and
/// Rust programs can share a semaphore. But:
///
/// * Redisson does not renew permits. A Java program keeps its permit only for the lease that it
///   asked for, or without a lease until it releases it: if it dies, that permit is never available
///   again.
/// * Several permits that are [acquired together](Self::acquire_many) have an id each, as in
///   Redisson. A Java program can release each of them. The guard is lost then.
/// * A Java program neither sets the number again nor keeps a semaphore
///   [`with_permits`](Self::with_permits) from expiring: set the number of a semaphore that Java
///   programs share by [`try_set_permits`](Self::try_set_permits).
/// * Redisson reads the clock of the machine that it runs on, this crate reads the server's. A Java
///   program whose clock is ahead takes permits whose leases have not ended, and their holders lose
///   them ([`LostReason::Deleted`](crate::LostReason::Deleted)). Renewed permits have at least a
///   third of their leases left.
/// * After more than about 8,000 leases have ended unnoticed, Redisson's scripts fail. Any acquire
///   of this crate helps: it makes up to 1,000 of them available.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let semaphore = client.leased_semaphore("reports");
/// semaphore.try_set_permits(2)?;
///
/// let first = semaphore.acquire()?;
/// let second = semaphore.acquire()?;
/// assert!(semaphore.try_acquire_now()?.is_none());
/// first.release()?;
/// assert_eq!(semaphore.available()?, 1);
/// drop(second);
/// # Ok(())
/// # }
/// ```
///
/// # Errors of every method that asks Redis
///
/// * [`Error::Unavailable`] if Redis does not reply in time.
/// * [`Error::Redis`] if Redis refuses, for example without memory or permission.
/// * [`Error::WrongType`] if a key of the semaphore holds another value.
/// * [`Error::InvalidArgument`] for a name outside its bounds, and [`Error::Forked`] in a process
///   that was forked from the client's.
///
/// No method panics. In the repository, `cargo run --example rate_limit` shows a semaphore between
/// processes, one of which is killed.
#[derive(Clone)]
pub struct LeasedSemaphore(pub(crate) SingleLock);

impl LeasedSemaphore {
    /// Returns the name of the semaphore, without the client's namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns a handle of the same semaphore whose acquires also set the number of permits: a
    /// limit for each of many names needs no other call, and no further request.
    ///
    /// * If the semaphore does not exist, or has fewer permits than `permits`, available or leased,
    ///   an acquire adds those that are missing, in the same step. So a raised limit is in force
    ///   with the next acquire.
    /// * If it has more, nothing is taken away: otherwise two versions of a program, which run at
    ///   the same time with different limits, would change the number with each acquire. A lowered
    ///   limit is in force when the semaphore has expired, or after
    ///   [`set_permits`](Self::set_permits), if no handle has the old limit any more.
    /// * A semaphore that such an acquire has created expires when no permit is leased, and no such
    ///   handle has acquired one for an hour. Acquires by other handles only keep it until the end
    ///   of their leases. The next acquire by such a handle creates it again. A semaphore that was
    ///   created otherwise does not expire.
    ///
    /// After [a loss of the leases](Self#lost-leases), the next acquire adds the lost permits.
    /// Their holders may notice the loss only a little later.
    ///
    /// Bounds: at most 2^31 - 1, the largest number of Java.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::connect(url)?;
    /// let limit = |tenant| client.leased_semaphore(&format!("tenant:{tenant}")).with_permits(2);
    /// let first = limit("a")?.acquire()?;
    /// let second = limit("a")?.acquire()?;
    /// assert!(limit("a")?.try_acquire_now()?.is_none());
    /// let other = limit("b")?.acquire()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a number outside its bounds. Sends nothing.
    pub fn with_permits(&self, permits: u32) -> Result<Self> {
        self.total(permits)?;
        Ok(Self(SingleLock {
            total: Some(permits),
            ..self.0.clone()
        }))
    }

    /// Acquires a permit with [`Lease::RENEWED`], and waits until one is available.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors-of-every-method-that-asks-redis).
    /// [`Error::Unavailable`] is returned when a request has had no reply for
    /// [`give_up_after`](crate::LockClientBuilder::give_up_after).
    /// [`Error::TooFewReplicas`] is returned as by [`Lock::lock`](crate::Lock::lock).
    pub fn acquire(&self) -> Result<PermitGuard> {
        self.acquire_with(Lease::RENEWED)
    }

    /// Acquires a permit with `lease`, and waits until one is available.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and [`Error::InvalidArgument`] for a lease outside its
    /// bounds.
    pub fn acquire_with(&self, lease: Lease) -> Result<PermitGuard> {
        let held = without_limit(|| self.0.lock_within(None, lease, None))?;
        Ok(PermitGuard::of(self.0.shared_name(), held))
    }

    /// Acquires a permit with `lease` if one becomes available within `wait`; `None` if not.
    /// [`Duration::ZERO`] means: do not wait. [`Duration::MAX`] means: wait indefinitely.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_with`](Self::acquire_with). [`Error::Unavailable`] is returned after
    /// `wait`, or after one command timeout if that is longer; but after
    /// [`give_up_after`](crate::LockClientBuilder::give_up_after) without any reply.
    #[must_use = "None means that no permit was acquired"]
    pub fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<PermitGuard>> {
        let held = self.0.lock_within(Some(wait), lease, None)?;
        Ok(held.map(|held| PermitGuard::of(self.0.shared_name(), held)))
    }

    /// Acquires a permit with [`Lease::RENEWED`] if one is available; `None` if not.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire).
    #[must_use = "None means that no permit was acquired"]
    pub fn try_acquire_now(&self) -> Result<Option<PermitGuard>> {
        self.try_acquire(Duration::ZERO, Lease::RENEWED)
    }

    /// Acquires a permit with `lease`, and waits until one is available or `interrupt` is raised.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_with`](Self::acquire_with), and [`Error::Interrupted`]. Only the
    /// interrupt limits the time without a reply.
    pub fn acquire_interruptibly(
        &self,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<PermitGuard> {
        let held = without_limit(|| self.0.lock_within(None, lease, Some(interrupt)))?;
        Ok(PermitGuard::of(self.0.shared_name(), held))
    }

    /// Acquires a permit with `lease` if one becomes available within `wait`; `None` if not. The
    /// wait ends with an error as soon as `interrupt` is raised. [`Duration::ZERO`] means: do not
    /// wait. [`Duration::MAX`] means: wait indefinitely.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire), and [`Error::Interrupted`].
    #[must_use = "None means that no permit was acquired"]
    pub fn try_acquire_interruptibly(
        &self,
        wait: Duration,
        lease: Lease,
        interrupt: &Interrupt,
    ) -> Result<Option<PermitGuard>> {
        let held = self.0.lock_within(Some(wait), lease, Some(interrupt))?;
        Ok(held.map(|held| PermitGuard::of(self.0.shared_name(), held)))
    }

    /// Releases the permit with this [id](PermitGuard::id), in whichever process its guard is: as
    /// Redisson's `tryRelease`. Returns false if no permit has this id. The guard is lost, and
    /// notices that within about a second: see [`PermitGuard::check`]. To release a permit of a
    /// guard of this process, call [`PermitGuard::release`].
    ///
    /// The request is repeated if its reply is lost. Then a later copy may find that an earlier one
    /// has released the permit: the result is false, too.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors-of-every-method-that-asks-redis), and
    /// [`Error::InvalidArgument`] if `id` is not 32 hexadecimal characters. After
    /// [`Error::Unavailable`] the permit may have been released, or may be a little later: call
    /// this again.
    pub fn release(&self, id: &str) -> Result<bool> {
        let rule = "the id of a permit must be 32 hexadecimal characters";
        let error = || Error::argument("id", format_args!("{id:?}"), rule).concerning(self.name());
        self.0
            .release_permit(&OwnerId::of_permit_id(id).ok_or_else(error)?)
    }

    /// Sets the number of permits if the semaphore does not exist yet. Returns false, and changes
    /// nothing, if it exists.
    ///
    /// Bounds: at most 2^31 - 1, the largest number of Java.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors-of-every-method-that-asks-redis), and
    /// [`Error::InvalidArgument`] for a number outside its bounds. After [`Error::Unavailable`] the
    /// number may have been set: call this again.
    pub fn try_set_permits(&self, permits: u32) -> Result<bool> {
        self.0
            .change_permits(PermitsChange::Init(self.total(permits)?))
    }

    /// Sets the number of all permits, those that are leased included. If more are leased, no
    /// permit is taken from its holder: [`available`](Self::available) is negative until enough of
    /// them are released. This also repairs a semaphore that has [lost its
    /// leases](Self#lost-leases), once their holders have noticed it: within their leases.
    ///
    /// Bounds: at most 2^31 - 1, the largest number of Java.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors-of-every-method-that-asks-redis), and
    /// [`Error::InvalidArgument`] for a number outside its bounds. After [`Error::Unavailable`] the
    /// number may have been set, or may be set a little later.
    pub fn set_permits(&self, permits: u32) -> Result<()> {
        let change = PermitsChange::Set(self.total(permits)?);
        self.0.change_permits(change).map(drop)
    }

    /// Adds permits, or takes available ones away if the number is negative. The number of
    /// available permits can become negative.
    ///
    /// Bounds: those of a 32-bit number, Java's `int`.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors-of-every-method-that-asks-redis), and
    /// [`Error::InvalidArgument`] for a number outside its bounds. The request is never sent again
    /// after a copy that Redis may have executed, because a second copy would change the number
    /// again. So [`Error::Unavailable`] means that it is unknown whether the number has changed:
    /// compare [`permits`](Self::permits).
    pub fn add_permits(&self, permits: i64) -> Result<()> {
        let rule = "at most 2^31 - 1 permits can be added or taken away";
        let error = |_| Error::argument("permits", permits, rule).concerning(self.name());
        i32::try_from(permits).map_err(error)?;
        let change = PermitsChange::Add(permits);
        self.0.change_permits(change).map(drop)
    }

    /// Asks Redis how many permits are available. Permits whose leases have ended count. The number
    /// is negative if there are fewer permits than are leased.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors-of-every-method-that-asks-redis).
    /// [`Error::Unavailable`] is returned after one command timeout.
    pub fn available(&self) -> Result<i64> {
        self.0.count_permits().map(|(available, _)| available)
    }

    /// Asks Redis how many permits there are, available or leased.
    ///
    /// # Errors
    ///
    /// [Those of every method](Self#errors-of-every-method-that-asks-redis).
    /// [`Error::Unavailable`] is returned after one command timeout.
    pub fn permits(&self) -> Result<i64> {
        let (available, leased) = self.0.count_permits()?;
        Ok(available.saturating_add(leased))
    }

    fn total(&self, permits: u32) -> Result<i64> {
        let rule = "a semaphore can have at most 2^31 - 1 permits";
        let error = |_| Error::argument("permits", permits, rule).concerning(self.name());
        i32::try_from(permits).map(Into::into).map_err(error)
    }
}

impl fmt::Debug for LeasedSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_handle(f, "LeasedSemaphore", self.name(), self.0.nodes(), None)
    }
}
