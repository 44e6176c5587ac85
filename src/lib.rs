//! Distributed locks on Redis for blocking Rust: `java.util.concurrent.locks.Lock` for threads of
//! different processes and machines.
//!
//! ```
//! use leasehold::LockClient;
//!
//! fn main() -> leasehold::Result<()> {
//!     let url = "redis://127.0.0.1:6379";
//! #   let server = redis_test::server::RedisServer::new();
//! #   let url = &format!("redis://{}", server.addr);
//!     let client = LockClient::connect(url)?; // opens no connection yet
//!     let lock = client.reentrant_lock("order:pay");
//!
//!     let guard = lock.acquire()?; // waits while another thread, on any machine, holds it
//!     guard.check()?; // fails once the lock is known to be lost
//!     guard.unlock()?; // or drop the guard
//!
//!     if let Some(guard) = lock.try_acquire_now()? {
//!         println!("held for at least {:?}", guard.remaining());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The crate uses no async runtime. A call blocks its thread, for at most the time that its
//! documentation states.
//!
//! # Acquiring a lock
//!
//! | call | waits | returns |
//! |---|---|---|
//! | [`acquire`] | until the lock is free | a [`LockGuard`], which unlocks when it is dropped |
//! | [`try_acquire(wait, lease)`] | at most `wait` | a guard, or `None` |
//! | [`try_acquire_for(wait)`] | at most `wait` | the same, with a renewed lease |
//! | [`try_acquire_now`] | no: one attempt | a guard, or `None` |
//! | [`acquire_owned(lease)`] | until the lock is free | an [`OwnedGuard`], for any thread |
//! | [`run(lease, work)`] | until the lock is free | the result of `work`, or a [`RunError`] |
//! | [`lock`], [`try_lock(wait, lease)`] | as above | no guard: the caller must call [`unlock`] |
//! | [`#[locked]`](macro@locked) on a function | as its argument `wait` says | its result |
//!
//! While Redis does not reply, a call can take longer than `wait`, by one command timeout and 250
//! ms at most.
//!
//! **Keep the guard in a variable with a name.** rustc does not warn of these mistakes:
//!
//! | mistake | the lock | right |
//! |---|---|---|
//! | `let _guard = lock.lock()?;` | stays locked: [`lock`] returns `()` | (1) |
//! | `let _ = lock.acquire()?;` | is unlocked at once | (1) |
//! | `lock.try_acquire_now()?;` | is unlocked at once | (2) |
//! | `if lock.try_acquire_now()?.is_some() { .. }` | is unlocked before the block | (2) |
//! | `let held = lock.try_acquire_now()?.is_some();` | is unlocked at once | (2) |
//! | `let Some(_) = lock.try_acquire_now()? else { .. };` | is unlocked at once | (2) |
//!
//! 1. `let _guard = lock.acquire()?;`
//! 2. `if let Some(_guard) = lock.try_acquire_now()? { .. }`
//!
//! The lint `let_underscore_drop` of rustc finds `let _ =`. This `clippy.toml` in your package lets
//! Clippy find `lock`; for `lock_with`, `try_lock` and others, add their names:
//!
//! ```toml
//! disallowed-methods = [
//!     { path = "leasehold::Lock::lock", reason = "returns no guard: use `acquire`" },
//!     { path = "leasehold::FairLock::lock", reason = "returns no guard: use `acquire`" },
//!     { path = "leasehold::FencedLock::lock", reason = "returns no guard: use `acquire`" },
//!     { path = "leasehold::MultiLock::lock", reason = "returns no guard: use `acquire`" },
//!     { path = "leasehold::ReadLock::lock", reason = "returns no guard: use `acquire`" },
//!     { path = "leasehold::RedLock::lock", reason = "returns no guard: use `acquire`" },
//!     { path = "leasehold::ReentrantLock::lock", reason = "returns no guard: use `acquire`" },
//!     { path = "leasehold::WriteLock::lock", reason = "returns no guard: use `acquire`" },
//! ]
//! ```
//!
//! [`acquire_interruptibly`] and others also end when an [`Interrupt`] is raised. The error of
//! [`run`] says whether the work has run, so that a program can repeat what has not. Every lock
//! type has these methods. The trait [`Lock`] has them, too, for code that accepts any kind of
//! lock.
//!
//! [`acquire`]: Lock::acquire
//! [`try_acquire(wait, lease)`]: Lock::try_acquire
//! [`try_acquire_for(wait)`]: Lock::try_acquire_for
//! [`try_acquire_now`]: Lock::try_acquire_now
//! [`acquire_interruptibly`]: Lock::acquire_interruptibly
//! [`acquire_owned(lease)`]: Lock::acquire_owned
//! [`lock`]: Lock::lock
//! [`try_lock(wait, lease)`]: Lock::try_lock
//! [`unlock`]: Lock::unlock
//! [`run`]: ReentrantLock::run
//! [`run(lease, work)`]: ReentrantLock::run
//!
//! The OS thread that acquires a lock owns it. The owner can acquire it again; its last unlock
//! frees the lock. Code that moves work between threads, such as a work-stealing pool or an async
//! handler, needs [care](guide::which_lock#mistakes). An [`OwnedGuard`] owns its lock itself: it
//! can be sent to other threads, and is not reentrant. A [token](OwnedGuard::into_token) gives its
//! lock to another process.
//!
//! If another owner holds the lock, that is a result (`false` or `None`) and not an error, except
//! for a function with `#[locked]`: [`Error::HeldByAnother`].
//!
//! Every hold in Redis has a [`Lease`], because a process that dies cannot unlock.
//! [`Lease::RENEWED`] is renewed in the background until the lock is released or lost.
//! [`Lease::fixed`] ends after the given time. [`Lease::held_at_most`] limits the time of renewals,
//! for work that may hang. [`LockGuard::unlock_at_least`] unlocks, and keeps the lock in Redis for
//! the rest of a time: together with [`Lease::fixed`], for work that is done [at most once in a
//! period](LockGuard#examples).
//!
//! # Kinds
//!
//! | type | what it is |
//! |---|---|
//! | [`ReentrantLock`] | the plain lock |
//! | [`FairLock`] | clients acquire it in one order with threads of Redisson |
//! | [`FencedLock`] | each hold has a higher number, so that a store can refuse late writes |
//! | [`ReadWriteLock`] | many threads read at the same time, or one thread writes |
//! | [`MultiLock`] | several names as one lock: all of them or none |
//! | [`RedLock`] | one lock on several servers, with a client for each; a majority must grant it |
//! | [`Condition`] | a thread that holds a lock waits until another process notifies it |
//! | [`LeasedSemaphore`] | a number of permits, each with a lease: a limit for concurrent work |
//! | [`Semaphore`] | a number of permits without owner and lease |
//! | [`CountDownLatch`] | lets threads wait until other threads have counted it down to zero |
//!
//! [Which lock do I want?](guide::which_lock) compares them. A [`LockClient`] works with one
//! server, with Sentinel or with a Cluster.
//!
//! # What can go wrong
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
//! is over by the local clock. A process can be paused after a `check`, too, and then write late:
//! [`LockGuard::query`] writes to the Redis of the lock, and only while the lock is held; another
//! store can compare [fencing tokens](guide::deployments#when-to-use-fencing-tokens).
//!
//! [`LockGuard::confirm`] asks Redis. [`LockGuard::lost`] is a channel for programs that wait for
//! the loss instead, and [`LockClient::events`] is a channel that reports the losses of all locks.
//! The thread still has to unlock a lost lock, which returns [`Error::Lost`], or drop its guard.
//! Until then this thread cannot acquire the lock again; other threads can. A lost [`OwnedGuard`]
//! keeps no thread from acquiring the lock again.
//!
//! A renewed lease of 3 s, recorded by the example `watchdog`. It is renewed when about a third of
//! it is left. After the connection is cut, the holder is notified of the loss just before the key
//! expires in Redis:
//!
#![doc = include_str!("../docs/pictures/lease.svg")]
//!
//! If Redis does not reply, calls fail with [`Error::Unavailable`] after a documented time. A
//! release without a reply is [`Error::NotReleased`]. Repeat an acquire if [`Error::is_transient`]
//! returns true, but never [work that may have run](Error#retries): [`RunError`] tells which has
//! not.
//!
//! # How it works
//!
//! A lock is one hash in Redis: its field names the owner, its time to live is the lease. One
//! script acquires it, one releases it and notifies a waiting client. Nested calls are counted in
//! the process and send nothing. Threads of one client get a lock in the order of their calls, and
//! hand it over for a few milliseconds without a request. A client has a few threads of its own:
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
//! 3. [Recipes](guide::recipes): leader election, once a period, requests, workers, SIGTERM, tests.
//! 4. [Callers on tokio](guide::tokio): `spawn_blocking`, permits, cancellation.
//! 5. [Deployments](guide::deployments): what each can lose, and how to choose time limits.
//! 6. [Settings](guide::settings): URLs, the builder, Cargo features.
//! 7. [Permissions](guide::permissions) of the Redis user.
//! 8. [Costs](guide::costs): commands, threads, connections.
//! 9. [Errors](guide::errors) of Redis, and locks without an owner.
//! 10. [Monitoring](guide::monitoring): metrics, alerts, log lines, spans.
//! 11. [Testing](guide::testing) code that uses locks (feature `testing`).
//! 12. [Redisson](guide::redisson): sharing locks with Java.
//! 13. [Migration](guide::migration) from hand-written locks and from other libraries.
//! 14. [The command](guide::command) `leasehold`, for shells, cron and systemd.
//!
//! [Design decisions](guide::decisions) has the reasons.
//!
//! [`admin`] is a module for operations tools.
//!
//! [deployments.md]: guide::deployments
//! [fencing-token]: FencedGuard::fencing_token
//! [permissions.md]: guide::permissions
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

// The simulation in `tests/simulation` has its own threads, time and processes.
#[cfg(simulation)]
#[macro_use]
extern crate leasehold_simulation_std as std;

pub mod admin;
mod base;
mod client;
mod composite;
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
mod topology;
mod transport;
mod watchdog;

pub use admin::holder::Holder;
#[doc(hidden)]
pub use base::clock::Moment as __Moment;
pub use base::interrupt::Interrupt;
pub use base::subscription::Subscription;
pub use client::LockClient;
pub use config::LockClientBuilder;
/// The crate of the channels in a [`Subscription`], for its `select!` and the errors of its
/// `Receiver`.
pub use crossbeam_channel;
pub use error::{Cause, Error, Hint, LostReason, Permission, Result, TimeLimit};
pub use lease::Lease;
#[cfg(feature = "macros")]
#[doc = include_str!("locked.md")]
#[doc(inline)]
pub use leasehold_macros::locked;
pub use lock::{
    Condition, CountDownLatch, FairLock, FencedGuard, FencedLock, LeasedSemaphore, Lock, LockGuard,
    MultiLock, OwnedGuard, PermitGuard, ReadLock, ReadWriteLock, RedLock, ReentrantLock, RunError,
    Semaphore, SemaphoreGuard, WriteLock,
};
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use locked::LockedCall as __LockedCall;
#[cfg(feature = "macros")]
pub use locked::{CurrentLock, current_lock, set_default_client};
pub use observe::{LockEvent, Stats};
pub use protocol::LockStatus;
/// The crate of the commands and replies of a [`query`](LockGuard::query).
pub use redis;
pub use transport::credentials::Credentials;

/// For tests of programs that use this crate: locks without Redis, and a proxy with faults.
///
/// [`InMemoryRedis`](testing::InMemoryRedis) is a small server in the process of the test. Its
/// clients are the same types as with Redis, and run the same code and the same scripts. A test can
/// move their clock, take a lock away from its holder, and make the server unavailable.
///
/// The page [testing](guide::testing) shows how.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::client::testing::{FaultProxy, InMemoryRedis};
    #[cfg(feature = "macros")]
    pub use crate::locked::with_default_client;
    #[doc(inline)]
    pub use leasehold_testing::{Fault, Gate, ProxiedRequest};
}

/// The pages of `docs/`. They lead to each other in [this order](crate#further-pages), after the
/// [promises](crate#promises), which are on the first page.
pub mod guide {
    /// A page of `docs/`. These link targets replace those of the file, which are paths.
    macro_rules! page {
        ($name:ident, $file:literal) => {
            #[doc = include_str!("links.md")]
            #[doc = ""]
            #[doc = include_str!($file)]
            pub mod $name {}
        };
    }

    page!(which_lock, "../docs/which_lock.md");
    page!(recipes, "../docs/recipes.md");
    page!(tokio, "../docs/tokio.md");
    page!(deployments, "../docs/deployments.md");
    page!(settings, "../docs/settings.md");
    page!(permissions, "../docs/permissions.md");
    page!(costs, "../docs/costs.md");
    page!(errors, "../docs/errors.md");
    page!(monitoring, "../docs/monitoring.md");
    #[cfg(feature = "testing")]
    page!(testing, "../docs/testing.md");
    page!(redisson, "../docs/redisson.md");
    page!(migration, "../docs/migration.md");
    page!(command, "../docs/command.md");
    page!(decisions, "../docs/decisions.md");
}

/// Compiles the programs in the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
