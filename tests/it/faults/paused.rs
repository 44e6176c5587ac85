//! A holder that is stopped (SIGSTOP) for longer than its lease finds its lock lost before anything
//! else.
//!
//! The threads of the stopped process make all kinds of calls on held locks, each on its own lock,
//! so that every kind of call is at some time the first after the process continues.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockClient, LockGuard, LostReason, ReentrantLock, Result};

use super::deployment::{Deployment, builder_of};
use super::in_redis;
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, eventually, throughout, within};
use crate::support::unique;

everywhere! {
    a_process_that_is_stopped_for_two_leases_finds_its_locks_lost_at_once;
    a_pause_that_is_shorter_than_the_lease_loses_no_lock
}

/// Long enough to renew in time on a busy machine.
fn lease() -> Duration {
    LEASE.get() * 2
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Held,
    Lost,
    /// No reply within the time of the call.
    Nothing,
}

impl Outcome {
    fn held(held: bool) -> Self {
        if held { Self::Held } else { Self::Lost }
    }

    fn by(result: Result<()>) -> Self {
        match result {
            Ok(()) => Self::Held,
            Err(Error::Lost { .. }) => Self::Lost,
            Err(Error::Unavailable { .. } | Error::NotReleased { .. }) => Self::Nothing,
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// What a thread does with the lock that it holds, and what the library reports about the hold.
type Work = fn(&ReentrantLock, &LockGuard) -> Outcome;

fn nest(lock: &ReentrantLock) -> Result<()> {
    let guard = lock.try_acquire(Duration::ZERO, Lease::RENEWED)?;
    guard.expect("this thread holds it already").unlock()
}

/// Calls that go on through the pause.
const THROUGHOUT_PAUSE: &[(&str, Work)] = &[
    ("check", |_, guard| Outcome::by(guard.check())),
    ("hold_count", |lock, _| Outcome::held(lock.hold_count() > 0)),
    ("is_held", |lock, _| {
        Outcome::held(lock.is_held_by_current_thread())
    }),
    ("remaining", |_, guard| {
        Outcome::held(!guard.remaining().is_zero())
    }),
    ("is_lost", |_, guard| Outcome::held(!guard.is_lost())),
    ("extend", |_, guard| Outcome::by(guard.extend(lease()))),
    ("nested", |lock, _| Outcome::by(nest(lock))),
    ("nested, unguarded", |lock, _| {
        Outcome::by(lock.lock().and_then(|()| lock.unlock()))
    }),
];

/// Calls that are made for the first time after the pause.
const AFTER_PAUSE: &[(&str, Work)] = &[
    ("first unlock", |lock, _| Outcome::by(lock.unlock())),
    ("first nested", |lock, _| Outcome::by(lock.lock())),
    ("first extend", |_, guard| {
        Outcome::by(guard.extend(lease()))
    }),
    ("first check", |_, guard| Outcome::by(guard.check())),
];

/// Detects the pause by the clock alone.
struct Pause(Cell<Instant>);

impl Pause {
    fn none_yet() -> Self {
        Self(Cell::new(Instant::now()))
    }

    /// Whether the process stood still since the last call.
    fn is_over(&self) -> bool {
        let now = Instant::now();
        now.duration_since(self.0.replace(now)) >= lease()
    }
}

/// Calls `work` until the pause, and then once more. The result of the call during the pause does
/// not count; the first call after it does.
fn call_until_paused(work: impl Fn() -> Outcome) -> Outcome {
    let pause = Pause::none_yet();
    loop {
        let outcome = work();
        if pause.is_over() {
            return work();
        }
        assert_eq!(outcome, Outcome::Held, "before the pause");
        thread::yield_now();
    }
}

/// Makes the first call after the pause.
fn call_after_pause(work: impl Fn() -> Outcome) -> Outcome {
    let pause = Pause::none_yet();
    while !pause.is_over() {
        thread::yield_now();
    }
    work()
}

/// The role: every thread holds a lock when the process is stopped.
pub fn pause_for_two_leases(arguments: &[&str]) {
    let &[target, prefix] = arguments else {
        panic!("{arguments:?}")
    };
    let client = builder_of(target).watchdog_lease(lease());
    let client = client.build().expect("the settings are valid");
    thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = THROUGHOUT_PAUSE
            .iter()
            .map(|work| (work, true))
            .chain(AFTER_PAUSE.iter().map(|work| (work, false)))
            .map(|(&(what, work), goes_on)| {
                scope.spawn(move || {
                    pause_and_check_loss(client, &format!("{prefix}:{what}"), work, goes_on);
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("the thread panicked, see above"));
    });
    child::send_line("notified");
    assert_eq!(child::read_line(), "free again");
    for (what, _) in THROUGHOUT_PAUSE.iter().chain(AFTER_PAUSE) {
        let lock = client.reentrant_lock(&format!("{prefix}:{what}"));
        assert!(
            lock.try_lock(SOON.get(), Lease::RENEWED)
                .expect("Redis replies")
        );
    }
    child::send_line("acquired again");
    child::read_line();
}

fn pause_and_check_loss(client: &LockClient, name: &str, work: Work, goes_on: bool) {
    let lock = client.reentrant_lock(name);
    lock.lock().expect("it is free");
    let guard = lock.acquire().expect("it is held by this thread");
    let lost = guard.lost().clone();
    child::send_line("busy");
    let outcome = if goes_on {
        call_until_paused(|| work(&lock, &guard))
    } else {
        call_after_pause(|| work(&lock, &guard))
    };
    assert_eq!(
        outcome,
        Outcome::Lost,
        "{name}: after a pause of two leases"
    );
    let Err(Error::Lost { reason, .. }) = guard.check() else {
        panic!("{name}: {:?}", guard.check());
    };
    // The reason is `Taken` only if a renewal was about to be sent when the pause began.
    assert!(
        matches!(reason, LostReason::Expired | LostReason::Taken),
        "{name}: {reason:?}"
    );
    assert_eq!((lock.hold_count(), guard.remaining()), (0, Duration::ZERO));
    let received = within(SLIP.get() * 2, "the notification", || {
        lost.recv_timeout(SOON.get())
    });
    assert_eq!(received, Ok(reason), "{name}");
    let unlocked = guard.unlock();
    assert!(matches!(unlocked, Err(Error::Lost { .. })), "{unlocked:?}");
    // A thread whose work was an unlock has already released the other level.
    let unlocked = lock.unlock();
    assert!(
        matches!(unlocked, Err(Error::Lost { .. } | Error::NotHeld { .. })),
        "{unlocked:?}"
    );
    assert!(matches!(lock.unlock(), Err(Error::NotHeld { .. })));
    // Nothing is left of the lost hold: the thread waits like any other client.
    let taken = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(!taken.expect("Redis replies"), "{name}: the rival has it");
}

fn a_process_that_is_stopped_for_two_leases_finds_its_locks_lost_at_once(deployment: &Deployment) {
    let prefix = unique("paused");
    let mut sleeper = Process::start("pause_for_two_leases", &[&deployment.target(), &prefix]);
    let names: Vec<String> = THROUGHOUT_PAUSE
        .iter()
        .chain(AFTER_PAUSE)
        .map(|(what, _)| format!("{prefix}:{what}"))
        .collect();
    for _ in &names {
        assert_eq!(sleeper.read_line(), "busy");
    }
    sleeper.pause();
    let paused = Instant::now();
    let rival = deployment.client();
    let homes: Vec<_> = names
        .iter()
        .map(|name| deployment.server_of(name))
        .collect();
    let locks: Vec<ReentrantLock> = names
        .iter()
        .map(|name| rival.reentrant_lock(name))
        .collect();
    for lock in &locks {
        let taken = lock.try_lock(lease() + SLIP.get(), Lease::fixed(SOON.get() * 6));
        assert!(taken.expect("Redis replies"), "its lease is over");
    }
    let rivals = || -> Vec<_> {
        let of_one = |(name, home): (&String, &Server)| {
            (
                in_redis::holders(home, name),
                in_redis::end_of_lease(home, name),
            )
        };
        names
            .iter()
            .zip(homes.iter().copied())
            .map(of_one)
            .collect()
    };
    let before = rivals();
    thread::sleep((lease() * 2).saturating_sub(paused.elapsed()));
    sleeper.resume();
    assert_eq!(sleeper.read_line(), "notified");
    assert_eq!(rivals(), before, "the rival's holds are unchanged");
    for lock in &locks {
        lock.unlock().expect("the rival's hold is valid");
    }
    sleeper.send_line("free again");
    assert_eq!(sleeper.read_line(), "acquired again");
    for ((name, before), home) in names.iter().zip(&before).zip(&homes) {
        let now = in_redis::holders(home, name);
        assert_eq!(
            (now.len(), now[0].1),
            (1, 1),
            "{name}: one hold of one level"
        );
        assert_ne!(now[0].0, before.0[0].0);
    }
    sleeper.send_line("end");
    sleeper.finish();
}

/// The role: holds a lock through a pause that is shorter than its lease.
pub fn pause_briefly(arguments: &[&str]) {
    let &[target, name] = arguments else {
        panic!("{arguments:?}")
    };
    let client = builder_of(target)
        .watchdog_lease(lease() * 2)
        .build()
        .expect("the settings are valid");
    let lock = client.reentrant_lock(name);
    let guard = lock.acquire().expect("it is free");
    child::send_line("held");
    let pause = Pause::none_yet();
    while !pause.is_over() {
        guard.check().expect("it is held");
        thread::yield_now();
    }
    guard.check().expect("the lease outlasts the pause");
    eventually("a renewal", || client.stats().renewals > 0);
    throughout(lease(), "held", || {
        guard.check().is_ok() && lock.hold_count() == 1
    });
    assert!(guard.lost().is_empty());
    assert_eq!(client.stats().lost, 0);
    guard.unlock().expect("it is held");
    child::send_line("unlocked");
}

fn a_pause_that_is_shorter_than_the_lease_loses_no_lock(deployment: &Deployment) {
    let name = unique("paused");
    let server = deployment.server_of(&name);
    let sleeper = Process::start("pause_briefly", &[&deployment.target(), &name]);
    assert_eq!(sleeper.read_line(), "held");
    let owner = in_redis::holders(server, &name);
    sleeper.pause();
    // Beyond the time of its renewal.
    thread::sleep(lease() * 3 / 2);
    assert_eq!(in_redis::holders(server, &name), owner);
    sleeper.resume();
    assert_eq!(sleeper.read_line(), "unlocked");
    assert!(in_redis::is_free(server, &name));
    sleeper.finish();
}
