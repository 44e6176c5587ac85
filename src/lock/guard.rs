//! A held lock that unlocks itself.

use std::cmp::Reverse;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::debug::{CheckResult, Short};
use super::hold_requests;
use super::parts::{HeldPart, Needed, combine, release_all, slowest};
use crate::base::call_budget::CallBudget;
use crate::core::Core;
use crate::error::{Error, LostReason, Result};
use crate::lease::whole_millis;
use crate::local::Quorum;
use crate::observe::tell;

/// A lock that this thread holds; dropping it unlocks.
///
/// **A guard that exists is not a lock that is held.** Redis can lose the key, and a process can
/// sleep through its lease. Ask [`check`](Self::check) before every step that must not happen
/// twice, or listen to [`lost`](Self::lost).
///
/// A guard stays on its thread (it is not `Send`), because the thread is the owner. Dropping it
/// tries to unlock for one command time-out, never panics, and logs a warning if the lock was lost
/// or Redis did not answer; [`unlock`](Self::unlock) gives the result instead. Nothing else gives
/// back the level of a guard: [`Lock::unlock`](crate::Lock::unlock) gives back only levels that
/// were taken without one.
///
/// A guard that is forgotten ([`std::mem::forget`]) keeps its client alive and its lock held. A
/// renewed lease is renewed until the process ends, unless
/// [`force_unlock`](crate::LockClient::force_unlock) breaks the lock. After a loss, the thread that
/// forgot the guard cannot take that lock again through this client: it gets [`Error::Lost`].
///
/// A guard of several locks ([`MultiLock`](crate::MultiLock)) speaks for all of them: it is lost as
/// soon as one of them is, has left what the one that ends first has left, and extends and unlocks all.
///
/// The explicit release beside the silent drop follows `rusqlite`'s `Transaction`; the loss that
/// can be waited for follows etcd's `Session::Done` and `DistributedLock`'s `HandleLostToken`.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::LockClient;
///
/// let client = LockClient::connect(url)?;
/// let lock = client.reentrant_lock("order:pay");
/// let guard = lock.acquire()?;
/// for step in ["read", "compute", "write"] {
///     guard.check()?;
///     println!("{step}");
/// }
/// guard.unlock()?;
/// # Ok(())
/// # }
/// ```
///
/// Another thread cannot have the guard. The compiler says
/// "`(dyn leasehold::lock::guard::GuardBelongsToItsThread + 'static)` cannot be sent between
/// threads safely":
///
/// ```compile_fail,E0277
/// # fn main() -> leasehold::Result<()> {
/// # let client = leasehold::LockClient::connect("redis://127.0.0.1:6379")?;
/// let guard = client.reentrant_lock("order:pay").acquire()?;
/// std::thread::spawn(move || drop(guard));
/// # Ok(())
/// # }
/// ```
#[must_use = "a guard that is dropped at once unlocks at once"]
pub struct LockGuard {
    name: Arc<str>,
    /// One for most kinds of lock.
    pub(super) parts: Vec<HeldPart>,
    /// The guard stands while so many of its parts do.
    pub(super) needed: Needed,
    /// Made when somebody first listens to several parts.
    quorum: OnceLock<Arc<Quorum>>,
    unlocked: bool,
    _thread: PhantomData<dyn GuardBelongsToItsThread>,
}

/// Makes a guard not `Send`: a trait object is `Send` only if its trait is. The compiler's error
/// about a guard that is sent to another thread shows this name. `Sync`, because another thread may
/// look at a guard.
trait GuardBelongsToItsThread: Sync + Unpin {}

impl LockGuard {
    pub(super) fn new(name: Arc<str>, parts: Vec<HeldPart>, needed: Needed) -> Self {
        for part in &parts {
            part.hold.guard(part.level);
        }
        Self {
            name,
            parts,
            needed,
            quorum: OnceLock::new(),
            unlocked: false,
            _thread: PhantomData,
        }
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fails as soon as this process knows that the lock is lost. Asks nobody: no I/O.
    ///
    /// It is known when Redis says so, which is asked at every renewal, and at the latest when the
    /// lease may be over by the local clock, a little before it is ([`remaining`](Self::remaining)). Redis is asked of fixed leases, too, once, so that a lock
    /// that was deleted behind its holder's back is noticed within two thirds of its lease. While
    /// other threads of the same client wait for the lock, Redis is asked once a second.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`], and [`Error::NotHeld`] in a forked child.
    pub fn check(&self) -> Result<()> {
        let checks = self.parts.iter().map(|part| part.hold.check());
        combine(checks, self.needed())
    }

    /// Whether [`check`](Self::check) knows the lock to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.check(), Err(Error::Lost { .. }))
    }

    /// Gets one message when the lock is lost, for `recv_timeout` or `select!`. Clones may be
    /// listened to on other threads, where all but one see only that the channel is disconnected.
    /// It is disconnected, too, when the hold ends well and its last guard is gone.
    ///
    /// [`check`](Self::check) needs nobody's help; this message is sent by the watchdog, within moments;
    /// while Redis hangs, at most a quarter of a command time-out later. Only if the lock was taken while the
    /// watchdog waited for an answer can it be late by that wait: at most one command time-out.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::LockClient;
    /// use leasehold::crossbeam_channel::{bounded, select};
    ///
    /// let guard = LockClient::connect(url)?.reentrant_lock("order:pay").acquire()?;
    /// let (sender, jobs) = bounded(1);
    /// # sender.send("job").unwrap();
    /// select! {
    ///     recv(guard.lost()) -> reason => println!("stop: {reason:?}"),
    ///     recv(jobs) -> job => println!("work on {job:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lost(&self) -> &Receiver<LostReason> {
        if let [only] = &self.parts[..] {
            return only.hold.loss_receiver();
        }
        let holds = || self.parts.iter().map(|part| &part.hold);
        let quorum = self
            .quorum
            .get_or_init(|| Quorum::observe(holds(), self.needed()));
        quorum.loss_receiver()
    }

    /// What is left of the lease by the local clock: so long nobody else can have the lock, even if
    /// no renewal succeeds. Zero once it is lost. Asks nobody.
    ///
    /// It is less than what Redis leaves of the lease, by a hundredth of it and 2 ms (by half of a lease
    /// below 4 ms): so much faster the clock of the server may run.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        // A lease that has run out ends the hold.
        let _ = self.check();
        self.left()
    }

    /// What is left of the lease. Does not end a hold whose lease has run out.
    fn left(&self) -> Duration {
        let left = |part: &HeldPart| part.hold.left().unwrap_or_default();
        let mut lefts: Vec<Duration> = self.parts.iter().map(left).collect();
        lefts.sort_unstable_by_key(|&left| Reverse(left));
        let last_needed = lefts.get(self.needed().saturating_sub(1));
        last_needed.copied().unwrap_or_default()
    }

    /// Brings what is left of the lease up to `duration` from now, once; never shortens it. It
    /// changes nothing about who renews the lock, and how often Redis is asked whether it stands.
    ///
    /// Bounds: 1 ms to 2^53 ms.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock is gone, [`Error::NotHeld`] in a forked child, [`Error::Config`]
    /// for a duration outside its bounds, [`Error::Redis`] if Redis refused, [`Error::Unavailable`]
    /// after one command time-out without an answer. After an error the lease counts here as what
    /// it was.
    pub fn extend(&self, duration: Duration) -> Result<()> {
        let budget = self.budget(Core::budget_for_a_reply);
        let parts: Vec<_> = self.parts.iter().map(|part| (part, duration)).collect();
        hold_requests::extend_all(&parts, self.needed, &budget)
    }

    /// Asks Redis whether the lock still stands. [`check`](Self::check) knows what the last renewal
    /// found; this call finds out now.
    ///
    /// `Ok` means that Redis has confirmed the hold since this call began. A guard of several locks
    /// needs the confirmation of all of them, a guard of a [`RedLock`](crate::RedLock) that of a
    /// majority of the servers. The lease does not change.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::{Error, LockClient};
    ///
    /// let client = LockClient::connect(url)?;
    /// let guard = client.reentrant_lock("order:pay").acquire()?;
    /// match guard.confirm() {
    ///     Ok(()) => println!("held: write"),
    ///     Err(Error::Lost { reason, .. }) => println!("{reason}: do not write"),
    ///     Err(error) => println!("held for {:?} more, unless {error}", guard.remaining()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock is gone: stop the work, as after a failed `check`.
    /// [`Error::Unavailable`] after one command timeout without a reply and [`Error::Redis`] if Redis
    /// refused: nothing is known, and the hold stands for [`remaining`](Self::remaining).
    /// [`Error::NotHeld`] in a forked child. No panics.
    pub fn confirm(&self) -> Result<()> {
        let budget = self.budget(Core::budget_for_a_reply);
        hold_requests::confirm_all(&self.parts, self.needed, &budget)
    }

    /// Unlocks, and says how that went.
    ///
    /// # Errors
    ///
    /// As [`Lock::unlock`](crate::Lock::unlock).
    pub fn unlock(mut self) -> Result<()> {
        self.finish(Core::budget_to_unlock)
    }

    /// Unlocks in this process, and keeps the lock in Redis for `time` from now on, whatever is left
    /// of its lease. Until then no client acquires it, this one included. Work that ended early can
    /// so keep its lock for the rest of its period.
    ///
    /// If outer levels of the thread remain, `time` begins when the last of them is unlocked.
    ///
    /// Bounds: 1 ms to 2^53 ms.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use std::time::Duration;
    /// use leasehold::LockClient;
    ///
    /// let lock = LockClient::connect(url)?.reentrant_lock("report:nightly");
    /// if let Some(guard) = lock.try_acquire_now()? {
    ///     println!("the report of this hour");
    ///     guard.unlock_after(Duration::from_secs(3600))?;
    /// }
    /// assert!(!lock.is_held_by_current_thread());
    /// assert!(lock.try_acquire_now()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Lock::unlock`](crate::Lock::unlock), and [`Error::Config`] for a `time` outside its
    /// bounds: the guard then unlocks at once, as if it were dropped. After an
    /// [`Error::Unavailable`] nothing goes on in the background, and the lease of the hold ends it.
    /// No panics.
    pub fn unlock_after(mut self, time: Duration) -> Result<()> {
        let millis = whole_millis("time", time)?;
        for part in &self.parts {
            part.hold.stay(millis);
        }
        self.finish(Core::budget_to_unlock)
    }

    pub(super) fn finish(&mut self, budget: fn(&Core) -> CallBudget) -> Result<()> {
        self.unlocked = true;
        release_all(&self.parts, self.needed, &self.budget(budget))
    }

    /// The fencing token of its hold, if it has one.
    pub(crate) fn token(&self) -> Option<u64> {
        self.parts.first().and_then(|part| part.hold.token())
    }

    /// How many of the parts must stand.
    fn needed(&self) -> usize {
        self.needed.of(self.parts.len())
    }

    /// Adds to `shown` whether the lock is held, and for how long.
    pub(crate) fn show_state(&self, shown: &mut fmt::DebugStruct<'_, '_>) {
        let standing = |part: &HeldPart| part.hold.left().map(drop);
        let state = combine(self.parts.iter().map(standing), self.needed());
        shown
            .field("state", &CheckResult(&state))
            .field("remaining", &format_args!("{:.1?}", self.left()));
    }

    /// The time of a call, as the slowest of the clients has it.
    pub(super) fn budget(&self, of: fn(&Core) -> CallBudget) -> CallBudget {
        let core = slowest(self.parts.iter().map(|part| &part.core));
        core.map_or_else(|| CallBudget::for_reply(Duration::ZERO), |core| of(core))
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LockGuard");
        shown.field("name", &Short(&self.name));
        self.show_state(&mut shown);
        shown.finish()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let is_same_process = |part: &HeldPart| part.core.is_same_process();
        if self.unlocked || !self.parts.iter().all(is_same_process) {
            return;
        }
        if let Err(error) = self.finish(Core::budget_for_a_reply) {
            tell(move || {
                tracing::warn!(%error, "a guard was dropped, but its lock could not be given back");
            });
        }
    }
}
