//! The public methods of every lock type, as a macro, and the names that it uses. The file of a
//! lock type imports all of them.

pub(super) use std::time::Duration;

pub(super) use super::debug::show_handle;
pub(super) use super::forward::forward;
pub(super) use super::run::{RunError, run_methods, run_under};
pub(super) use super::{LockGuard, OwnedGuard};
pub(super) use crate::base::interrupt::Interrupt;
pub(super) use crate::composite::Composite;
pub(super) use crate::engine::SingleLock;
pub(super) use crate::error::Result;
pub(super) use crate::lease::Lease;
pub(super) use crate::local::Hold;

/// Repeats a wait without a limit, which is never over, until it has a result.
pub(super) fn without_limit<T>(mut wait: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    loop {
        if let Some(held) = wait()? {
            return Ok(held);
        }
    }
}

/// Implements for a lock type the methods of [`Lock`](super::Lock), the trait itself, and `Debug`.
/// The type has one field: a [`SingleLock`] or a [`Composite`], which have the same methods. Its
/// guards have the type `$guard`.
macro_rules! lock_by_handle {
    ($lock:ident) => {
        lock_by_handle!($lock, LockGuard);
    };
    ($lock:ident, $guard:ident) => {
        /// The methods of the trait [`Lock`](crate::Lock), callable without an import of the
        /// trait. The documentation of the trait has the details and all errors.
        impl $lock {
            /// Returns the name of the lock, without the client's namespace.
            #[must_use]
            pub fn name(&self) -> &str {
                self.0.name()
            }

            /// Acquires the lock with [`Lease::RENEWED`](crate::Lease::RENEWED) and waits while
            /// another owner holds it. A thread that holds the lock already gets a further
            /// level, which it must unlock, too.
            ///
            /// **Returns no guard.** After `let _guard = lock.lock()?;` nothing unlocks: write
            /// `let _guard = lock.acquire()?;`.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::lock`](crate::Lock::lock).
            pub fn lock(&self) -> Result<()> {
                self.lock_with(Lease::RENEWED)
            }

            /// Acquires the lock with `lease` and waits while another owner holds it.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::lock`](crate::Lock::lock).
            pub fn lock_with(&self, lease: Lease) -> Result<()> {
                without_limit(|| self.0.lock_within(None, lease, None)).map(drop)
            }

            /// Acquires the lock with `lease` if it becomes free within `wait`; false if
            /// another owner holds it then. [`Duration::ZERO`](std::time::Duration::ZERO)
            /// means: do not wait for other owners. [`Duration::MAX`](std::time::Duration::MAX)
            /// means: wait indefinitely.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::try_lock`](crate::Lock::try_lock).
            #[must_use = "false means that the lock is not held"]
            pub fn try_lock(&self, wait: Duration, lease: Lease) -> Result<bool> {
                Ok(self.0.lock_within(Some(wait), lease, None)?.is_some())
            }

            /// Acquires the lock with `lease` and waits while another owner holds it, until
            /// `interrupt` is raised.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::lock_interruptibly`](crate::Lock::lock_interruptibly).
            pub fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<()> {
                without_limit(|| self.0.lock_within(None, lease, Some(interrupt))).map(drop)
            }

            /// Acquires the lock with `lease` if it becomes free within `wait`; false if
            /// another owner holds it then. The wait ends with an error as soon as `interrupt`
            /// is raised. [`Duration::ZERO`](std::time::Duration::ZERO) means: do not wait for
            /// other owners. [`Duration::MAX`](std::time::Duration::MAX) means: wait
            /// indefinitely.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::try_lock_interruptibly`](crate::Lock::try_lock_interruptibly).
            #[must_use = "false means that the lock is not held"]
            pub fn try_lock_interruptibly(
                &self,
                wait: Duration,
                lease: Lease,
                interrupt: &Interrupt,
            ) -> Result<bool> {
                let held = self.0.lock_within(Some(wait), lease, Some(interrupt))?;
                Ok(held.is_some())
            }

            /// Unlocks the newest level of this thread that has no guard. The lock is free
            /// after the last level, or another thread of this client gets it. A level with a
            /// guard is unlocked only by that guard.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::unlock`](crate::Lock::unlock).
            pub fn unlock(&self) -> Result<()> {
                self.0.unlock()
            }

            /// Acquires the lock with [`Lease::RENEWED`](crate::Lease::RENEWED) and waits while
            /// another owner holds it. The guard unlocks when it is dropped.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::lock`](crate::Lock::lock).
            pub fn acquire(&self) -> Result<$guard> {
                self.acquire_with(Lease::RENEWED)
            }

            /// Acquires the lock with `lease` and waits while another owner holds it. The guard
            /// unlocks when it is dropped.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::lock`](crate::Lock::lock).
            pub fn acquire_with(&self, lease: Lease) -> Result<$guard> {
                let held = without_limit(|| self.0.lock_within(None, lease, None))?;
                Ok($guard::of(self.0.shared_name(), held))
            }

            /// Acquires the lock with `lease` if it becomes free within `wait`; `None` if
            /// another owner holds it then. The guard unlocks when it is dropped, so keep it:
            /// `if let Some(guard) = lock.try_acquire(..)? { .. }`, not `is_some()`.
            ///
            /// While Redis does not reply, the call can take longer than `wait`: up to one command
            /// timeout and 250 ms.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::try_lock`](crate::Lock::try_lock).
            #[must_use = "None means that the lock is not held"]
            pub fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<$guard>> {
                let held = self.0.lock_within(Some(wait), lease, None)?;
                Ok(held.map(|held| $guard::of(self.0.shared_name(), held)))
            }

            /// Acquires the lock with [`Lease::RENEWED`](crate::Lease::RENEWED) if it becomes free
            /// within `wait`; `None` if another owner holds it then. The guard unlocks when it is
            /// dropped, so keep it: `if let Some(guard) = lock.try_acquire_for(..)? { .. }`.
            ///
            /// While Redis does not reply, the call can take longer than `wait`: up to one command
            /// timeout and 250 ms.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::try_lock`](crate::Lock::try_lock).
            #[must_use = "None means that the lock is not held"]
            pub fn try_acquire_for(&self, wait: Duration) -> Result<Option<$guard>> {
                self.try_acquire(wait, Lease::RENEWED)
            }

            /// Acquires the lock with [`Lease::RENEWED`](crate::Lease::RENEWED) if it is free;
            /// `None` if another owner holds it. The guard unlocks when it is dropped, so keep
            /// it: `if let Some(guard) = lock.try_acquire_now()? { .. }`, not `is_some()`.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::try_lock`](crate::Lock::try_lock).
            #[must_use = "None means that the lock is not held"]
            pub fn try_acquire_now(&self) -> Result<Option<$guard>> {
                self.try_acquire(Duration::ZERO, Lease::RENEWED)
            }

            /// Acquires the lock with `lease` and waits while another owner holds it, until
            /// `interrupt` is raised. The guard unlocks when it is dropped.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::lock_interruptibly`](crate::Lock::lock_interruptibly).
            pub fn acquire_interruptibly(
                &self,
                lease: Lease,
                interrupt: &Interrupt,
            ) -> Result<$guard> {
                let held = without_limit(|| self.0.lock_within(None, lease, Some(interrupt)))?;
                Ok($guard::of(self.0.shared_name(), held))
            }

            /// Acquires the lock with `lease` if it becomes free within `wait`; `None` if
            /// another owner holds it then. The wait ends with an error as soon as `interrupt`
            /// is raised. The guard unlocks when it is dropped.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::try_lock_interruptibly`](crate::Lock::try_lock_interruptibly).
            #[must_use = "None means that the lock is not held"]
            pub fn try_acquire_interruptibly(
                &self,
                wait: Duration,
                lease: Lease,
                interrupt: &Interrupt,
            ) -> Result<Option<$guard>> {
                let held = self.0.lock_within(Some(wait), lease, Some(interrupt))?;
                Ok(held.map(|held| $guard::of(self.0.shared_name(), held)))
            }

            /// Acquires the lock with `lease` for a guard that belongs to no thread, and waits
            /// while another owner holds it. The guard can be sent to other threads: see
            /// [`OwnedGuard`](crate::OwnedGuard).
            ///
            /// The guard is another owner than each thread. So a thread that holds the lock and
            /// calls this waits for itself: unlock first.
            ///
            /// # Errors
            ///
            /// [Those of every method](crate::Lock#errors-of-every-method-that-asks-redis).
            /// [`Error::Unavailable`](crate::Error::Unavailable) is returned after
            /// [`give_up_after`](crate::LockClientBuilder::give_up_after), 10 s by default, without
            /// any reply.
            pub fn acquire_owned(&self, lease: Lease) -> Result<OwnedGuard> {
                let lock = self.0.owned();
                let held = without_limit(|| lock.lock_within(None, lease, None))?;
                Ok(OwnedGuard::of(lock.shared_name(), held))
            }

            /// Acquires the lock with `lease` for a guard that belongs to no thread, if it becomes
            /// free within `wait`; `None` if another owner holds it then, such as the calling
            /// thread. See [`OwnedGuard`](crate::OwnedGuard).
            ///
            /// While Redis does not reply, the call can take longer than `wait`: up to one command
            /// timeout and 250 ms.
            ///
            /// # Errors
            ///
            /// [Those of every method](crate::Lock#errors-of-every-method-that-asks-redis).
            /// [`Error::Unavailable`](crate::Error::Unavailable) is returned if Redis does not
            /// reply in this time, or for
            /// [`give_up_after`](crate::LockClientBuilder::give_up_after).
            #[must_use = "None means that the lock is not held"]
            pub fn try_acquire_owned(
                &self,
                wait: Duration,
                lease: Lease,
            ) -> Result<Option<OwnedGuard>> {
                let held = self.0.owned().lock_within(Some(wait), lease, None)?;
                Ok(held.map(|held| OwnedGuard::of(self.0.shared_name(), held)))
            }

            /// Acquires the lock with `lease` for a guard that belongs to no thread, and waits
            /// while another owner holds it, until `interrupt` is raised. See
            /// [`OwnedGuard`](crate::OwnedGuard).
            ///
            /// While Redis does not reply, the call sends its request again, without a time limit.
            ///
            /// # Errors
            ///
            /// [Those of every method](crate::Lock#errors-of-every-method-that-asks-redis).
            /// [`Error::Interrupted`](crate::Error::Interrupted), also if the interrupt was raised
            /// before.
            pub fn acquire_owned_interruptibly(
                &self,
                lease: Lease,
                interrupt: &Interrupt,
            ) -> Result<OwnedGuard> {
                let lock = self.0.owned();
                let held = without_limit(|| lock.lock_within(None, lease, Some(interrupt)))?;
                Ok(OwnedGuard::of(lock.shared_name(), held))
            }

            /// Returns true if this thread holds the lock, as far as this process knows. No
            /// I/O.
            #[must_use]
            pub fn is_held_by_current_thread(&self) -> bool {
                self.hold_count() > 0
            }

            /// Returns the number of levels that this thread holds, as far as this process
            /// knows; 0 once the lock is lost. No I/O.
            #[must_use]
            pub fn hold_count(&self) -> u32 {
                self.0.hold_count(Hold::count)
            }

            /// Asks Redis whether any owner holds the lock.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::is_locked`](crate::Lock::is_locked).
            pub fn is_locked(&self) -> Result<bool> {
                self.0.is_locked()
            }

            /// Asks Redis how much of the lease is left, whichever owner holds the lock; `None`
            /// if it is free.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::is_locked`](crate::Lock::is_locked).
            pub fn remaining(&self) -> Result<Option<Duration>> {
                self.0.remaining()
            }
        }

        run_methods!($lock, $guard);

        /// Forwards to the type's own methods.
        impl super::Lock for $lock {
            forward! {
                fn name(&self) -> &str;
                fn lock_with(&self, lease: Lease) -> Result<()>;
                fn try_lock(&self, wait: Duration, lease: Lease) -> Result<bool>;
                fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<()>;
                fn try_lock_interruptibly(
                    &self,
                    wait: Duration,
                    lease: Lease,
                    interrupt: &Interrupt
                ) -> Result<bool>;
                fn unlock(&self) -> Result<()>;
                fn acquire_owned(&self, lease: Lease) -> Result<OwnedGuard>;
                fn try_acquire_owned(
                    &self,
                    wait: Duration,
                    lease: Lease
                ) -> Result<Option<OwnedGuard>>;
                fn acquire_owned_interruptibly(
                    &self,
                    lease: Lease,
                    interrupt: &Interrupt
                ) -> Result<OwnedGuard>;
                fn hold_count(&self) -> u32;
                fn is_locked(&self) -> Result<bool>;
                fn remaining(&self) -> Result<Option<Duration>>;
            }

            fn acquire(&self) -> Result<LockGuard> {
                self.acquire().map(Into::into)
            }

            fn acquire_with(&self, lease: Lease) -> Result<LockGuard> {
                self.acquire_with(lease).map(Into::into)
            }

            fn acquire_interruptibly(
                &self,
                lease: Lease,
                interrupt: &Interrupt,
            ) -> Result<LockGuard> {
                self.acquire_interruptibly(lease, interrupt).map(Into::into)
            }

            fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<LockGuard>> {
                Ok(self.try_acquire(wait, lease)?.map(Into::into))
            }

            fn try_acquire_interruptibly(
                &self,
                wait: Duration,
                lease: Lease,
                interrupt: &Interrupt,
            ) -> Result<Option<LockGuard>> {
                let guard = self.try_acquire_interruptibly(wait, lease, interrupt)?;
                Ok(guard.map(Into::into))
            }
        }

        impl std::fmt::Debug for $lock {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let count = self.0.hold_count(Hold::count_unchanged);
                let nodes = self.0.nodes();
                show_handle(f, stringify!($lock), self.name(), nodes, Some(count))
            }
        }
    };
}

pub(super) use lock_by_handle;
