//! Distributed locks on Redis for blocking Rust: `java.util.concurrent.locks.Lock` for threads of
//! different processes and machines.
//!
//! ```
//! # fn main() -> leasehold::Result<()> {
//! # let server = redis_test::server::RedisServer::new();
//! # let url = &format!("redis://{}", server.addr);
//! use leasehold::LockClient;
//!
//! let client = LockClient::connect(url)?;     // "redis://127.0.0.1:6379"
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
//! There is no async runtime here. A call blocks its thread, and says how long at most.
//!
//! # Taking a lock
//!
//! | call | waits | gives |
//! |---|---|---|
//! | [`acquire`](Lock::acquire), [`acquire_with(lease)`](Lock::acquire_with) | until the lock is free | a [`LockGuard`] that unlocks when it is dropped |
//! | [`try_acquire(wait, lease)`](Lock::try_acquire) | at most `wait` | the guard, or `None` |
//! | [`try_acquire_now`](Lock::try_acquire_now) | one attempt | the guard, or `None` |
//! | [`acquire_interruptibly(lease, interrupt)`](Lock::acquire_interruptibly) | until free or [interrupted](Interrupt) | the guard, or [`Error::Interrupted`] |
//! | [`lock`](Lock::lock), [`lock_with(lease)`](Lock::lock_with) | until the lock is free | nothing; [`unlock`](Lock::unlock) it yourself |
//! | [`try_lock(wait, lease)`](Lock::try_lock) | at most `wait` | whether this thread has it now |
//! | [`lock_interruptibly(lease, interrupt)`](Lock::lock_interruptibly) | until free or [interrupted](Interrupt) | nothing, or [`Error::Interrupted`] |
//! | [`try_lock_interruptibly(wait, lease, interrupt)`](Lock::try_lock_interruptibly) | at most `wait`, until [interrupted](Interrupt) | whether this thread has it now, or [`Error::Interrupted`] |
//! | [`#[locked(key = "..")]`](macro@locked) on a function | as it says | the function's result; [`Error::HeldByAnother`] if it did not run |
//!
//! These are methods of every lock type. The trait [`Lock`] has them, too, for code that takes any
//! kind of lock; only such code needs to import it.
//!
//! The owner is the OS thread. A thread that holds a lock can take it again; the last unlock frees
//! it. That somebody else holds the lock is an answer (`false`, `None`), no error, except of a function with `#[locked]`.
//!
//! Threads of one process that wait for one lock get it in the order in which they came, and cost
//! Redis nothing while they wait: one of them speaks for all. Between processes there is no order.
//!
//! # Leases
//!
//! A process that dies cannot unlock, so every hold in Redis ends by itself: with its [`Lease`].
//! [`Lease::RENEWED`] is renewed in the background for as long as its holder lives;
//! [`Lease::fixed`] ends when it says; [`Lease::renewed_at_most`] is for work that may hang;
//! [`Lease::lasting`] gives a renewed one a length of its own.
//! A nested acquire never shortens what the outer one has, and a nested unlock never stops it.
//!
//! # When a lock is lost
//!
//! Redis can lose a key, an operator can delete it, a process can be paused for longer than its
//! lease. Then the work runs on beside somebody else's, unless it asks:
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
//! [`LockGuard::lost`] is a channel for those who would rather wait for the news, and
//! [`LockClient::events`] tells an operator. A lost lock still has to be unlocked (or its guard
//! dropped) by its thread, which is told [`Error::Lost`] once more; only then can that thread take
//! the lock anew. So no part of a program takes a lock silently that another part believes to hold.
//!
//! # How Redis is reached
//!
//! | URL | way |
//! |---|---|
//! | `redis://[user:password@]host[:port][/database]` | TCP, with nothing hidden: passwords, too, go as they are |
//! | `rediss://[user:password@]host[:port][/database]` | TLS over TCP; needs the feature `tls`, which is on by default |
//! | `redis+unix:///path/to/socket` | a socket of the file system; settings as `?user=..&pass=..&db=..` |
//!
//! With TLS the server's certificate is always checked: by an authority of the system's, or of
//! [`ca_certificates`](LockClientBuilder::ca_certificates); its dates; and the URL's host, a name or an address. A
//! handshake takes its time from [`connect_timeout`](LockClientBuilder::connect_timeout). If one side refuses the other's
//! certificate, that is [`Error::Redis`] at once: it would be refused again. A handshake that fails for any other
//! reason is [`Error::Unavailable`] with the reason as its cause, when the time of the call is over.
//!
//! # What is promised
//!
//! 1. While a guard says that it is held, no other client holds the lock, as long as Redis keeps the
//!    key: no failover that loses it, no eviction, nobody who deletes it.
//! 2. A holder whose lock is gone is told, at the latest when its lease could have run out on the
//!    server. The lease counts by a clock that never steps and that goes on while the machine
//!    sleeps, from before the request was sent, and it counts as a hundredth and 2 ms shorter than it
//!    is, because the server's clock may run faster.
//! 3. A process that dies frees its locks within one lease.
//! 4. A lost or late reply never leaves a count wrong, a lock stuck for longer than one lease, or a
//!    stranger's lock released: every request but that to break a lock can be done twice and does its work once.
//! 5. Every call returns within the time that its documentation states, whatever the server and the
//!    network do. The look-up of a host name alone is left to the system.
//!
//! # What no lock with a lease can promise
//!
//! * A process that is paused between `check` and its write writes late. Only the store that is
//!   written to can refuse that, by a number that rises with every hold: a [fencing
//!   token](FencedGuard::fencing_token), which a [`FencedLock`] gives.
//! * A Redis replica that is promoted may not have seen the lock. Two holders are possible then,
//!   until the first one's renewal is answered with "not yours".
//! * An eviction policy other than `noeviction` may evict locks.
//! * Redis counts leases by its machine's clock. If that clock is set forward, or runs faster than
//!   ours by more than a hundredth, leases end early there; their holders learn of it at the next
//!   renewal. If it is set back, leases that run then last longer by as much, and whoever dies keeps the
//!   lock that long. The clocks of the clients' machines are of no matter.
//!
#![doc = include_str!("deployments.md")]
//!
//! # When Redis answers with an error
//!
//! | it says | because | to lock is | to unlock is | meanwhile a held lock is |
//! |---|---|---|---|---|
//! | `OOM` | memory is full, and it may evict nothing | an error at once | done; a nested unlock is an error at once | renewed |
//! | `READONLY` | it became a replica | tried again on new connections | tried again, then in the background | in danger |
//! | `LOADING`, `BUSY`, `MASTERDOWN`, `NOREPLICAS`, too many clients | it is not ready: it loads its data, runs somebody's script, lacks its master or replicas, has no connection to spare | tried again | tried again, then in the background | in danger |
//! | `MISCONF` | its last save failed | an error at once | an error at once; goes on in the background | in danger |
//! | `NOAUTH`, `WRONGPASS` | the log-in is missing or wrong, perhaps since a moment ago | an error at once, which names the settings for it | an error at once; goes on in the background | renewed on a connection that is logged in already, else in danger |
//! | no word of Redis, but a certificate is not accepted: the server's here, or the client's there | it is of another authority, out of date, or for another host | an error at once | an error at once; goes on in the background | renewed on a connection that is open already, else in danger |
//! | `MOVED`, or that it does not know a command | it is a server of a cluster or a sentinel, and the client was not made for that | an error at once, which names the builder to use | the same | |
//! | `NOPERM`; from a script "ACL failure in script" or, in Redis 7.0 and older, "The user executing the script can't" | the user may not do it | an error at once, which names the permission if the reply does | an error at once; goes on in the background | in danger, if it is a renewal that the user may not do |
//! | `WRONGTYPE` | the key is not a lock: it holds another type, a read-write lock of Redisson's, or a hash that is not one owner and its count | [`Error::WrongType`] at once | [`Error::Lost`] | lost |
//! | `NOSCRIPT` | it forgot the script | sent once more, with the script | the same | the same |
//!
//! *An error at once* is [`Error::Redis`], after one attempt. What to change is its [`Hint`].
//! *Tried again* is until it works or the time of the call is over, which is [`Error::Unavailable`]
//! with what Redis said as its cause. *In the background* is until it works or the lease is over.
//! *In danger* is not lost: renewals fail ([`LockEvent::RenewalFailed`]) and are tried again,
//! quickly, until the lease is over. Connections that were told `READONLY`, `NOAUTH` or `WRONGPASS`
//! are dropped, and so are those that were opened before. If a connection cannot be opened for
//! another reason (refused, no such host, too many clients, no file descriptor left, a
//! certificate), calls go on with those that are open, and a call fails only if it gets none of
//! them. What only reads ([`inspect`](LockClient::inspect) and the like) works under `OOM`,
//! `READONLY`, `MISCONF` and `NOREPLICAS`; [`force_unlock`](LockClient::force_unlock) says what an
//! unlock says, but does not go on in the background.
//!
//! # Locks that are left behind
//!
//! | what happens | what becomes of the lock |
//! |---|---|
//! | a guard is dropped, also by a panic | it is unlocked |
//! | a guard is forgotten ([`std::mem::forget`]) | it stays held until its fixed lease ends, and a renewed one until the process ends, because the guard keeps the client alive and [`unlock`](Lock::unlock) gives back no guard's level; [`force_unlock`](LockClient::force_unlock) can break it, but its thread then gets [`Lost`](Error::Lost) for every further attempt through that client |
//! | a thread ends that locked by hand | it stays held and renewed until the client is gone: nobody else can unlock it, but [`force_unlock`](LockClient::force_unlock) can break it |
//! | the last client, lock and guard are dropped while it is held by hand | nothing renews it any more, and it runs out with its lease |
//! | the process dies | it runs out with its lease |
//! | the process forks | the parent holds it, the child does not: there [`check`](LockGuard::check), [`extend`](LockGuard::extend) and [`unlock`](Lock::unlock) say [`NotHeld`](Error::NotHeld), dropping a guard does nothing, and everything else that asks Redis is [`Forked`](Error::Forked). A child that wants locks is forked before any client is made, or runs another program |
//!
//! [`Lease::renewed_at_most`] bounds all but the first and the last.
//!
//! # Beside Redisson
//!
//! Names, keys, counts and messages are those of Redisson's `RLock`, byte for byte, so a Rust and a
//! Java service can share a lock. Use one kind of lock for one name.
//!
//! # What an operator sees
//!
//! [`LockClient::events`] is a channel of what happened, [`LockClient::stats`] are counters.
//! Losses, failed renewals and a missing subscription are logged as warnings by `tracing`, a release
//! that came late and a connection that is back as information. No password and no URL is ever
//! logged; a user name only where a reply of the server has it (Redis 7.2 and later name the user
//! who lacks a permission).
//!
//! The log subscriber and the metrics recorder of the program may block or panic. On the program's
//! own threads the client calls them directly. For its own threads the client calls them on a
//! thread that does nothing else, so they delay no renewal and no wake-up. While they block there,
//! up to 16,384 log lines and samples wait; further ones are dropped, and their number is logged.
//! Increments of counters are summed up and never dropped.
//!
//! With the feature `metrics`, the facade of that name is told:
//!
//! | name | kind | label |
//! |---|---|---|
//! | `leasehold_acquisitions_total`, `leasehold_reentries_total`, `leasehold_releases_total`, `leasehold_unreplicated_total` | counter | |
//! | `leasehold_wait_seconds`: from the call until the lock was had | histogram | |
//! | `leasehold_hold_seconds`: from then until it was given back or lost | histogram | |
//! | `leasehold_renewals_total` | counter | `outcome`: `done`, `failed` (Redis answered with an error), `unknown` (no answer) |
//! | `leasehold_renewal_calls_total` | counter | |
//! | `leasehold_lost_total` | counter | `reason`: `expired`, `deleted`, `taken`, `renewal_limit` |
//! | `leasehold_wakeups_total` | counter | `by`: `message`, `timeout` |
//! | `leasehold_reconnects_total`, `leasehold_events_dropped_total` | counter | |
//!
//! A renewal that failed is not a loss: it is tried again while the lease lasts. No label holds the
//! name of a lock, of which there may be millions; events do.

#![warn(unreachable_pub)]
// The pages name the attribute, whether it is there or not.
#![cfg_attr(not(feature = "macros"), allow(rustdoc::broken_intra_doc_links))]
// A panic of ours is a panic of the user's; tests may.
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
mod error;
mod lease;
mod local;
mod lock;
#[cfg(feature = "macros")]
mod locked;
mod observe;
mod request;
mod script;
mod subscriber;
mod topology;
mod transport;
mod watchdog;

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
pub use lock::{FencedGuard, FencedLock, Lock, LockGuard, MultiLock, RedLock, ReentrantLock};
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use locked::Call as __LockedCall;
#[cfg(feature = "macros")]
pub use locked::{CurrentLock, current_lock, set_default_client};
pub use observe::{LockEvent, Stats};

/// The README's program is compiled, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
