//! A holder that is stopped (SIGSTOP) for longer than its lease finds its lock lost before anything
//! else.
//!
//! The threads of the stopped process make all kinds of calls on held locks, each on its own lock,
//! so that every kind of call is at some time the first after the process continues.

use std::cell::Cell;

use leasehold::Result;

use super::deployment::{Deployment, builder_of};
use crate::support::prelude::*;

everywhere! {
    a_process_that_is_stopped_for_two_leases_finds_its_locks_lost_at_once;
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
            Err(
                Error::Unavailable { .. }
                | Error::NotReleased { .. }
                | Error::Query {
                    executed: false, ..
                },
            ) => Self::Nothing,
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

/// A number that a query changes.
fn number(lock: &str) -> String {
    format!("{{{lock}}}:number")
}

fn add_one(key: &str) -> redis::Pipeline {
    redis::pipe().incr(key, 1).ignore().to_owned()
}

fn query(lock: &ReentrantLock, guard: &LockGuard) -> Outcome {
    Outcome::by(guard.query(&add_one(&number(lock.name()))))
}

/// Each call, and whether it goes on through the pause. The others are made for the first time
/// after it.
const CALLS: &[(&str, bool, Work)] = &[
    ("check", true, |_, guard| Outcome::by(guard.check())),
    ("hold_count", true, |lock, _| {
        Outcome::held(lock.hold_count() > 0 && lock.is_held_by_current_thread())
    }),
    ("extend", true, |_, guard| {
        Outcome::by(guard.extend(lease()))
    }),
    ("query", true, query),
    ("nested", true, |lock, _| Outcome::by(nest(lock))),
    ("first unlock", false, |lock, _| Outcome::by(lock.unlock())),
    ("first nested", false, |lock, _| Outcome::by(lock.lock())),
    ("first query", false, query),
    ("first extend", false, |_, guard| {
        Outcome::by(guard.extend(lease()))
    }),
];

/// The locks of the calls.
fn names(prefix: &str) -> Vec<String> {
    let names = CALLS.iter().map(|(what, ..)| format!("{prefix}:{what}"));
    names.collect()
}

/// Waits until the process has stood still, which only its clock shows, and then calls `work`. A
/// call that goes on is made until then. The result of the call during the pause does not count.
fn call_after_pause(goes_on: bool, work: impl Fn() -> Outcome) -> Outcome {
    let mut before = Instant::now();
    loop {
        let outcome = if goes_on { work() } else { Outcome::Held };
        let now = Instant::now();
        if now.duration_since(before) >= lease() {
            return work();
        }
        before = now;
        assert_eq!(outcome, Outcome::Held, "before the pause");
        thread::yield_now();
    }
}

/// The role: every thread holds a lock when the process is stopped.
pub fn pause_for_two_leases(arguments: &[&str]) {
    let [target, prefix] = child::named(arguments);
    let client = builder_of(target).watchdog_lease(lease());
    let client = client.build().expect("the settings are valid");
    thread::scope(|scope| {
        for (name, &(_, goes_on, work)) in names(prefix).into_iter().zip(CALLS) {
            let client = &client;
            scope.spawn(move || pause_and_check_loss(client, &name, work, goes_on));
        }
    });
    child::send_line("notified");
    assert_eq!(child::read_line(), "free again");
    for name in names(prefix) {
        let taken = client
            .reentrant_lock(&name)
            .try_lock(SOON.get(), Lease::RENEWED);
        assert!(taken.expect("Redis replies"), "{name}");
    }
    child::send_line("acquired again");
    child::read_line();
}

fn pause_and_check_loss(client: &LockClient, name: &str, work: Work, goes_on: bool) {
    let lock = client.reentrant_lock(name);
    lock.lock().expect("it is free");
    let guard = lock.acquire().expect("it is held by this thread");
    let lost = guard.lost();
    child::send_line("busy");
    let outcome = call_after_pause(goes_on, || work(&lock, &guard));
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
    assert_error!(guard.unlock(), Lost);
    // A thread whose work was an unlock has already released the other level.
    let unlocked = lock.unlock();
    assert!(
        matches!(unlocked, Err(Error::Lost { .. } | Error::NotHeld { .. })),
        "{unlocked:?}"
    );
    assert_error!(lock.unlock(), NotHeld);
    // Nothing is left of the lost hold: the thread waits like any other client.
    let taken = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(!taken.expect("Redis replies"), "{name}: the rival has it");
}

fn a_process_that_is_stopped_for_two_leases_finds_its_locks_lost_at_once(deployment: &Deployment) {
    let prefix = unique("paused");
    let mut sleeper = Process::start("pause_for_two_leases", &[&deployment.target(), &prefix]);
    let names = names(&prefix);
    for _ in &names {
        assert_eq!(sleeper.read_line(), "busy");
    }
    sleeper.pause();
    let paused = Instant::now();
    let rival = deployment.client();
    let homes = names.iter().map(|name| (deployment.server_of(name), name));
    let homes: Vec<(&Server, &String)> = homes.collect();
    let locks = names.iter().map(|name| rival.reentrant_lock(name));
    let locks: Vec<ReentrantLock> = locks.collect();
    for lock in &locks {
        let taken = lock.try_lock(lease() + SLIP.get(), Lease::fixed(SOON.get() * 6));
        assert!(taken.expect("Redis replies"), "its lease is over");
    }
    let rivals = || -> Vec<_> {
        let of_one = |&(home, name): &(&Server, &String)| {
            let ends = in_redis::end_of_lease(home, name);
            let written: Option<u64> = home.ask(redis::cmd("GET").arg(number(name)));
            (in_redis::holders(home, name), (ends, written))
        };
        homes.iter().map(of_one).collect()
    };
    let before = rivals();
    thread::sleep((lease() * 2).saturating_sub(paused.elapsed()));
    sleeper.resume();
    assert_eq!(sleeper.read_line(), "notified");
    assert_eq!(
        rivals(),
        before,
        "the rival's holds, and what is written, are unchanged"
    );
    for lock in &locks {
        lock.unlock().expect("the rival's hold is valid");
    }
    sleeper.send_line("free again");
    assert_eq!(sleeper.read_line(), "acquired again");
    for ((home, name), (before, _)) in homes.iter().zip(&before) {
        let now = in_redis::holders(home, name);
        let is_new = now.len() == 1 && now[0].1 == 1 && now[0].0 != before[0].0;
        assert!(is_new, "{name}: one hold of one level: {now:?}");
    }
    sleeper.send_line("end");
    sleeper.finish();
}

/// How many locks one process holds when it is stopped, and how many threads write.
const HOLDERS: usize = 1000;
const WRITERS: usize = 16;

fn holders(prefix: &str) -> Vec<String> {
    let names = (0..HOLDERS).map(|holder| format!("{prefix}:{holder}"));
    names.collect()
}

/// A number that commands change that nothing checks.
fn unchecked(lock: &str) -> String {
    format!("{{{lock}}}:unchecked")
}

/// The role: threads write by queries, one holder after another, when the process is stopped. After
/// that, each holder writes by a query and by a plain command.
pub fn write_late(arguments: &[&str]) {
    let [url, prefix] = child::named(arguments);
    let client = builder_of(url).watchdog_lease(lease()).build();
    let client = client.expect("the settings are valid");
    let guards = holders(prefix).into_iter().map(|name| {
        let guard = client.reentrant_lock(&name).acquire_owned(Lease::RENEWED);
        guard.expect("it is free")
    });
    let guards: Vec<OwnedGuard> = guards.collect();
    let query = |guard: &OwnedGuard| Outcome::by(guard.query(&add_one(&number(guard.name()))));
    thread::scope(|scope| {
        for guards in guards.chunks(HOLDERS.div_ceil(WRITERS)) {
            scope.spawn(move || {
                let next = Cell::new(0);
                child::send_line("busy");
                call_after_pause(true, || {
                    next.set(next.get() + 1);
                    query(&guards[next.get() % guards.len()])
                });
                let mut redis = crate::support::connect(url);
                for guard in guards {
                    assert_eq!(query(guard), Outcome::Lost);
                    let written = add_one(&unchecked(guard.name())).exec(&mut redis);
                    written.expect("Redis replies");
                }
            });
        }
    });
    child::send_line("written");
    child::read_line();
}

#[test]
fn of_a_thousand_holders_that_are_stopped_for_two_leases_none_writes_late_by_a_query() {
    let (server, prefix) = (Server::start(), unique("paused"));
    let mut sleeper = Process::start("write_late", &[&server.url(), &prefix]);
    for _ in 0..WRITERS {
        assert_eq!(sleeper.read_line(), "busy");
    }
    sleeper.pause();
    let paused = Instant::now();
    let rival = client(&server.url());
    let names = holders(&prefix);
    let rivals = names.iter().map(|name| {
        let lock = rival.reentrant_lock(name);
        let taken = lock.try_acquire(lease() + SLIP.get(), long());
        taken.expect("Redis replies").expect("its lease is over")
    });
    let rivals: Vec<LockGuard> = rivals.collect();
    let written = |key: fn(&str) -> String| -> Vec<Option<u64>> {
        let keys: Vec<String> = names.iter().map(|name| key(name)).collect();
        server.ask(redis::cmd("MGET").arg(keys))
    };
    let before = written(number);
    thread::sleep((lease() * 2).saturating_sub(paused.elapsed()));
    sleeper.resume();
    assert_eq!(sleeper.read_line(), "written");
    assert_eq!(written(unchecked), vec![Some(1); HOLDERS], "all are late");
    assert_eq!(written(number), before, "no query is executed late");
    drop(rivals);
    sleeper.send_line("end");
    sleeper.finish();
}
