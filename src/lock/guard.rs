//! A held lock that unlocks itself.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::acquire::Held;
use super::{release, standing};
use crate::core::Core;
use crate::error::{Error, LostReason, Result};
use crate::local::{Hold, LevelId};
use crate::observe::tell;
use crate::patience::Patience;

/// A lock that this thread holds; dropping it unlocks.
///
/// **A guard that exists is not a lock that is held.** Redis can lose the key, and a process can
/// sleep through its lease. Ask [`check`](Self::check) before every step that must not happen
/// twice, or listen to [`lost`](Self::lost).
///
/// A guard stays on its thread (it is not `Send`), because the thread is the owner. Dropping it
/// tries to unlock for one command time-out, never panics, and logs a warning if the lock was lost
/// or Redis did not answer; [`unlock`](Self::unlock) gives the result instead. A guard that is
/// forgotten ([`std::mem::forget`]) leaves the lock held, and renewed, until its thread calls
/// [`Lock::unlock`](crate::Lock::unlock); it keeps the client alive, so otherwise until the process ends.
///
/// The explicit release beside the silent drop follows `rusqlite`'s `Transaction`; the loss that
/// can be waited for follows etcd's `Session::Done` and `DistributedLock`'s `HandleLostToken`.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{Lock, LockClient};
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
#[derive(Debug)]
#[must_use = "a guard that is dropped at once unlocks at once"]
pub struct LockGuard {
    core: Arc<Core>,
    hold: Arc<Hold>,
    level: LevelId,
    unlocked: bool,
    /// Not `Send`, but `Sync`: other threads may look at it.
    _thread: PhantomData<std::sync::MutexGuard<'static, ()>>,
}

impl LockGuard {
    pub(super) fn new(core: &Arc<Core>, (hold, level): Held) -> Self {
        hold.guard(level);
        Self {
            core: Arc::clone(core),
            hold,
            level,
            unlocked: false,
            _thread: PhantomData,
        }
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &str {
        self.hold.key().name()
    }

    /// Fails as soon as this process knows that the lock is lost. Asks nobody: no I/O.
    ///
    /// It is known when Redis says so, which is asked at every renewal, and at the latest when the
    /// lease may be over by the local clock, a little before it is ([`remaining`](Self::remaining)). Redis is asked of fixed leases, too, once, so that a lock
    /// that was deleted behind its holder's back is noticed within two thirds of its lease.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`], and [`Error::NotHeld`] after the thread has unlocked the lock by hand.
    pub fn check(&self) -> Result<()> {
        self.hold.check()
    }

    /// Whether [`check`](Self::check) knows the lock to be lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.hold.check(), Err(Error::Lost { .. }))
    }

    /// Gets one message when the lock is lost, for `recv_timeout` or `select!`. Clones may be
    /// listened to on other threads, where all but one see only that the channel is disconnected.
    /// It is disconnected, too, when the hold ends well and its last guard is gone.
    ///
    /// [`check`](Self::check) needs nobody's help; this message is sent by the watchdog, within moments;
    /// while Redis hangs, at most a quarter of a command time-out later. Only if the lock was taken while the
    /// watchdog waited for an answer can it be late by that wait: at most one command time-out.
    #[must_use]
    pub fn lost(&self) -> &Receiver<LostReason> {
        self.hold.bell()
    }

    /// What is left of the lease by the local clock: so long nobody else can have the lock, even if
    /// no renewal succeeds. Zero once it is lost. Asks nobody.
    ///
    /// It is less than what Redis leaves of the lease, by a hundredth of it and 2 ms (by half of a lease
    /// below 4 ms): so much faster the clock of the server may run.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.hold.check() {
            Ok(()) => self.hold.expires().left(),
            Err(_) => Duration::ZERO,
        }
    }

    /// Brings what is left of the lease up to `duration` from now, once; never shortens it. It
    /// changes nothing about who renews the lock, and how often Redis is asked whether it stands.
    ///
    /// Bounds: 1 ms to 2^53 ms.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock is gone, [`Error::NotHeld`] after the thread has unlocked it by hand
    /// and in a forked child, [`Error::Config`] for a duration outside its bounds, [`Error::Redis`] if
    /// Redis refused, [`Error::Unavailable`] after one command time-out without an answer. After an error
    /// the lease counts here as what it was.
    pub fn extend(&self, duration: Duration) -> Result<()> {
        standing::extend(&self.core, &self.hold, duration)
    }

    /// Unlocks, and says how that went.
    ///
    /// # Errors
    ///
    /// As [`Lock::unlock`](crate::Lock::unlock).
    pub fn unlock(mut self) -> Result<()> {
        let patience = self.core.patience_to_unlock();
        self.finish(&patience)
    }

    fn finish(&mut self, patience: &Patience) -> Result<()> {
        self.unlocked = true;
        release::release(&self.core, &self.hold, Some(self.level), patience)
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.unlocked || !self.core.is_at_home() {
            return;
        }
        let patience = self.core.patience_for_an_answer();
        if let Err(error) = self.finish(&patience) {
            tell(|| {
                tracing::warn!(%error, "a guard was dropped, but its lock could not be given back");
            });
        }
    }
}
