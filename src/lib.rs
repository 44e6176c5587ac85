//! Distributed locks on Redis for blocking Rust: `java.util.concurrent.locks.Lock` for threads of
//! different processes and machines.
//!
//! ```
//! # fn main() -> leasehold::Result<()> {
//! # let server = redis_test::server::RedisServer::new();
//! # let url = &format!("redis://{}", server.addr);
//! use leasehold::LockClient;
//!
//! let client = LockClient::connect(url)?;     // "redis://127.0.0.1:6379"; opens no connection yet
//! let lock = client.reentrant_lock("order:pay");
//!
//! let guard = lock.acquire()?;    // waits while another thread, on any machine, holds it
//! guard.check()?;                 // fails once the lock is known to be lost
//! guard.unlock()?;                // or drop the guard
//!
//! if let Some(guard) = lock.try_acquire_now()? {
//!     println!("held for at least {:?}", guard.remaining());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The crate uses no async runtime. A call blocks its thread, for at most the time that its
//! documentation states.
//!
//! # Acquiring a lock
//!
//! | call | waits | returns |
//! |---|---|---|
//! | [`acquire`], [`acquire_with(lease)`] | until the lock is free | a [`LockGuard`] |
//! | [`with(lease, work)`] | until the lock is free | what `work` and the unlock return |
//! | [`try_acquire(wait, lease)`] | at most `wait` | a guard, or `None` |
//! | [`try_acquire_now`] | no: one attempt | a guard, or `None` |
//! | [`acquire_interruptibly(lease, interrupt)`] | until free or interrupted | a guard (1) |
//! | [`try_acquire_interruptibly(wait, lease, interrupt)`] | at most `wait` | guard or `None` (1) |
//! | [`lock`], [`lock_with(lease)`] | until the lock is free | nothing (2) |
//! | [`try_lock(wait, lease)`] | at most `wait` | `true` if this thread has it (2) |
//! | [`lock_interruptibly(lease, interrupt)`] | until free or interrupted | nothing (1), (2) |
//! | [`try_lock_interruptibly(wait, lease, interrupt)`] | at most `wait` | a `bool` (1), (2) |
//! | [`#[locked]`](macro@locked) on a function | as its argument `wait` says | (3) |
//!
//! A guard unlocks when it is dropped.
//!
//! 1. Or [`Error::Interrupted`], if the [`Interrupt`] is raised first.
//! 2. The caller must call [`unlock`](Lock::unlock).
//! 3. The result of the function, or [`Error::HeldByAnother`] if it did not run.
//!
//! [`acquire`]: Lock::acquire
//! [`acquire_with(lease)`]: Lock::acquire_with
//! [`with(lease, work)`]: ReentrantLock::with
//! [`try_acquire(wait, lease)`]: Lock::try_acquire
//! [`try_acquire_now`]: Lock::try_acquire_now
//! [`acquire_interruptibly(lease, interrupt)`]: Lock::acquire_interruptibly
//! [`try_acquire_interruptibly(wait, lease, interrupt)`]: Lock::try_acquire_interruptibly
//! [`lock`]: Lock::lock
//! [`lock_with(lease)`]: Lock::lock_with
//! [`try_lock(wait, lease)`]: Lock::try_lock
//! [`lock_interruptibly(lease, interrupt)`]: Lock::lock_interruptibly
//! [`try_lock_interruptibly(wait, lease, interrupt)`]: Lock::try_lock_interruptibly
//!
//! Every lock type has these methods. The trait [`Lock`] has them, too, for code that accepts any
//! kind of lock; only such code needs to import the trait.
//!
//! The OS thread that acquires a lock owns it. The owner can acquire it again; its last unlock
//! frees the lock. If another owner holds the lock, that is a result (`false` or `None`) and not an
//! error, except for a function with `#[locked]`.
//!
//! Threads of one client that wait for the same lock get it in the order in which they asked. Only
//! the first of them sends requests to Redis. For a few milliseconds after one thread has acquired
//! the lock, it passes from thread to thread without a request. Then it is released in Redis, and a
//! client that has just released it lets others go first.
//!
//! # Kinds of lock
//!
//! | type | what it is |
//! |---|---|
//! | [`ReentrantLock`] | the plain lock |
//! | [`FairLock`] | clients acquire it in the order in which they began to wait |
//! | [`FencedLock`] | each hold has a higher number, so that a store can refuse late writes |
//! | [`ReadWriteLock`] | many threads read at the same time, or one thread writes |
//! | [`MultiLock`] | several names as one lock: all of them or none |
//! | [`RedLock`] | one lock on several servers, with a client for each; a majority must grant it |
//!
//! Threads that hold a [`ReentrantLock`] can wait on its conditions until another process notifies
//! them: see [`Condition`].
//!
//! Three further types are no locks. The last two have no owner and no lease:
//!
//! | type | what it is |
//! |---|---|
//! | [`LeasedSemaphore`] | a number of permits, each with a lease: a limit for concurrent work |
//! | [`Semaphore`] | a number of permits: any client takes some, and any client returns some |
//! | [`CountDownLatch`] | lets threads wait until other threads have counted it down to zero |
//!
//! [Which lock do I want?](guide::which_lock) compares all kinds.
//!
//! A [`LockClient`] works with one server, with Sentinel or with a Cluster.
//!
//! # Leases
//!
//! A process that dies cannot unlock, so every hold in Redis has a [`Lease`], and ends when the
//! lease ends.
//!
//! * [`Lease::RENEWED`]: renewed in the background until the lock is released or lost, its client
//!   is dropped, or the process dies.
//! * [`Lease::fixed`]: ends after the given time.
//! * [`Lease::renewed_at_most`]: limits the number of renewals, for work that may hang.
//! * [`Lease::lasting`]: changes the length of one of these leases.
//!
//! A renewed lease of 3 s, recorded by the example `watchdog`. It is renewed when about a third of
//! it is left. After the connection is cut, the holder is notified of the loss just before the key
//! expires in Redis:
//!
#![doc = include_str!("../docs/pictures/lease.svg")]
//!
//! [`LockGuard::unlock_after`] unlocks in this process and keeps the lock in Redis for a given
//! time, for work that is done at most once in a period.
//!
//! A nested acquire never shortens the lease of the outer one, and a nested unlock never ends it.
//!
//! # When a lock is lost
//!
//! Redis can lose a key, an operator can delete it, and a process can be paused for longer than its
//! lease. Then another client can acquire the lock while the work of the first holder continues.
//! The work must check for that:
//!
//! ```no_run
//! # use leasehold::{LockGuard, Result};
//! # fn next_step() -> Option<()> { None }
//! fn work(guard: &LockGuard) -> Result<()> {
//!     while let Some(step) = next_step() {
//!         guard.check()?;     // Err(Lost) as soon as it is known; no I/O
//!         # let () = step;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! `check` fails if the lock is known to be lost, for example by its last renewal, or if the lease
//! is over by the local clock. [`LockGuard::confirm`] asks Redis. [`LockGuard::lost`] is a channel
//! for programs that wait for the loss instead, and [`LockClient::events`] is a channel that
//! reports the losses of all locks. The thread still has to unlock a lost lock, which returns
//! [`Error::Lost`], or drop its guard. Until then this thread cannot acquire the lock again; other
//! threads can. So no code of this thread acquires the lock again while other code of it still
//! relies on the lost hold.
//!
//! # How it works
//!
//! A lock is one hash in Redis: its field names the owner, its time to live is the lease. One
//! script acquires it, one releases it and publishes a message. Nested calls are counted in the
//! process and send nothing. A client has a few threads of its own:
//!
//! * The **watchdog** renews each renewed lease when a third of its time is left, many leases in
//!   one batch. It confirms fixed leases, detects losses, and repeats releases that got no reply.
//! * A **subscriber** for each server, started at the first wait, receives the messages and wakes
//!   the waiting threads.
//! * The **reporter** calls the program's log (`tracing`) and metrics recorder for these threads.
//!
//! Calls share a few connections. `ARCHITECTURE.md` in the repository follows a `lock()` through
//! all modules.
//!
//! # Further pages
//!
//! Each leads to the next:
//!
//! 1. [Promises and limits](#promises), below.
//! 2. [Which lock do I want?](guide::which_lock): the kinds, side by side.
//! 3. [Callers on tokio](guide::tokio): `spawn_blocking`, permits, cancellation.
//! 4. [Deployments](guide::deployments): what each can lose, and how to choose time limits.
//! 5. [Settings](guide::settings): URLs, the builder, Cargo features.
//! 6. [Permissions](guide::permissions) of the Redis user.
//! 7. [Costs](guide::costs): commands, threads, connections.
//! 8. [Errors](guide::errors) of Redis, and locks without an owner.
//! 9. [Monitoring](guide::monitoring): metrics, alerts, log lines, spans.
//! 10. [Testing](guide::testing) code that uses locks (feature `testing`).
//! 11. [Redisson](guide::redisson): sharing locks with Java.
//! 12. [Migration](guide::migration) from hand-written locks and from other libraries.
//! 13. [The command](guide::command) `leasehold`, for shells, cron and systemd.
//!
//! [Design decisions](guide::decisions) has the reasons.
//!
//! [`admin`] is a module for operations tools.
//!
//! [deployments.md]: guide::deployments
//! [fencing-token]: FencedGuard::fencing_token
//! [redisson.md]: guide::redisson
//! [time-limits]: guide::deployments#time-limits-and-failovers
//! [which_lock.md]: guide::which_lock
//!
#![doc = include_str!("../docs/promises.md")]
#![warn(unreachable_pub)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The documentation links to `#[locked]` and to `testing`, which a build without these features
// does not have.
#![cfg_attr(
    not(all(feature = "macros", feature = "testing")),
    allow(rustdoc::broken_intra_doc_links)
)]
// The library must not panic or print. Tests may.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::panic,
        clippy::print_stderr,
        clippy::print_stdout,
        clippy::unwrap_used,
    )
)]

pub mod admin;
mod base;
mod client;
mod config;
mod core;
mod deployment;
mod engine;
mod error;
mod lease;
mod local;
mod lock;
#[cfg(feature = "macros")]
mod locked;
mod observe;
mod protocol;
mod request;
mod script;
mod subscriber;
#[cfg(feature = "testing")]
pub mod testing;
mod topology;
mod transport;
mod watchdog;

pub use admin::holder::Holder;
pub use base::interrupt::Interrupt;
pub use client::{LockClient, LockStatus};
pub use config::LockClientBuilder;
/// The crate of the channels that [`LockGuard::lost`] and [`LockClient::events`] return, for its
/// `select!` and the errors of its `Receiver`.
pub use crossbeam_channel;
pub use error::{Cause, Error, Hint, LostReason, Permission, Result};
pub use lease::Lease;
#[cfg(feature = "macros")]
#[doc = include_str!("locked.md")]
#[doc(inline)]
pub use leasehold_macros::locked;
pub use lock::{
    Condition, CountDownLatch, FairLock, FencedGuard, FencedLock, LeasedSemaphore, Lock, LockGuard,
    MultiLock, PermitGuard, ReadLock, ReadWriteLock, RedLock, ReentrantLock, Semaphore, WriteLock,
};
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use locked::Call as __LockedCall;
#[cfg(feature = "macros")]
pub use locked::{CurrentLock, current_lock, set_default_client};
pub use observe::{LockEvent, Stats};

/// The pages of `docs/`.
pub mod guide {
    /// A page of `docs/`. These link targets replace those of the file, which are paths.
    macro_rules! page {
        ($name:ident, $file:literal) => {
            #[doc = "[command.md]: crate::guide::command"]
            #[doc = "[costs.md]: crate::guide::costs"]
            #[doc = "[deployments.md]: crate::guide::deployments"]
            #[doc = "[errors.md]: crate::guide::errors"]
            #[doc = "[migration.md]: crate::guide::migration"]
            #[doc = "[monitoring.md]: crate::guide::monitoring"]
            #[doc = "[permissions.md]: crate::guide::permissions"]
            #[doc = "[redisson.md]: crate::guide::redisson"]
            #[doc = "[settings.md]: crate::guide::settings"]
            #[doc = "[tokio.md]: crate::guide::tokio"]
            #[doc = "[testing.md]: crate::guide::testing"]
            #[doc = "[which_lock.md]: crate::guide::which_lock"]
            #[doc = "[keys]: crate::guide::costs#keys-that-stay-in-redis"]
            #[doc = "[promises]: crate#promises"]
            #[doc = "[time-limits]: crate::guide::deployments#time-limits-and-failovers"]
            #[doc = ""]
            #[doc = include_str!($file)]
            pub mod $name {}
        };
    }

    page!(command, "../docs/command.md");
    page!(costs, "../docs/costs.md");
    page!(decisions, "../docs/decisions.md");
    page!(deployments, "../docs/deployments.md");
    page!(errors, "../docs/errors.md");
    page!(migration, "../docs/migration.md");
    page!(monitoring, "../docs/monitoring.md");
    page!(permissions, "../docs/permissions.md");
    page!(redisson, "../docs/redisson.md");
    page!(settings, "../docs/settings.md");
    #[cfg(feature = "testing")]
    page!(testing, "../docs/testing.md");
    page!(tokio, "../docs/tokio.md");
    page!(which_lock, "../docs/which_lock.md");
}

/// Compiles the programs in the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
