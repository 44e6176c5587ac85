//! The servers hang: they accept bytes and reply nothing. Every call ends in time, and a holder
//! whose lease ends meanwhile knows it before another client can have the lock.

use std::sync::Barrier;
use std::thread::Scope;

use tracing::Level;

use super::deployment::Deployment;
use super::kinds::{KINDS, Kind};
use crate::support::prelude::*;

/// The time that the documentation allows a call beyond its timeouts.
const GRACE: Duration = Duration::from_millis(250);

everywhere! {
    after_a_hang_of_a_lease_the_holder_is_notified_before_another_client_has_the_lock;
    a_hang_of_half_a_lease_loses_no_lock
}

/// A timeout that is short compared to the lease, so that a renewal attempt is under way when the
/// lease ends.
fn timeout(lease: Duration) -> Duration {
    lease * 27 / 200
}

fn client(deployment: &Deployment, lease: Duration) -> LockClient {
    let builder = builder_of(deployment, lease, timeout(lease));
    builder.build().expect("the settings are valid")
}

fn builder_of(
    deployment: &Deployment,
    lease: Duration,
    command_timeout: Duration,
) -> LockClientBuilder {
    deployment
        .builder()
        .watchdog_lease(lease)
        .command_timeout(command_timeout)
        .connect_timeout(timeout(lease))
}

/// What a client holds of one kind when the server begins to hang: a renewed lock, a lock with a
/// fixed lease, and two levels of a renewed one.
type Held = (&'static Kind, [LockGuard; 4]);

fn hold_all_kinds(client: &LockClient, fixed_lease: Duration) -> Vec<Held> {
    let kinds = KINDS.iter().map(|kind| {
        let lock = |what| (kind.lock)(client, &unique(what));
        let [renewed, outer] =
            ["renewed", "nested"].map(|what| lock(what).acquire().expect("it is free"));
        let inner = (kind.lock)(client, outer.name());
        let inner = inner.acquire().expect("this thread holds it");
        let fixed = lock("fixed").try_acquire(Duration::ZERO, Lease::fixed(fixed_lease));
        let fixed = fixed.expect("a reply").expect("it is free");
        (kind, [renewed, fixed, inner, outer])
    });
    kinds.collect()
}

/// A guard of each lock, with the kind of the lock.
fn guards(held: &[Held]) -> impl Iterator<Item = (&'static Kind, &LockGuard)> {
    held.iter().flat_map(|(kind, [renewed, fixed, _, outer])| {
        [renewed, fixed, outer].map(|guard| (*kind, guard))
    })
}

/// Waits until the two renewed locks of each kind have just been renewed: their leases begin now.
fn await_renewals(client: &LockClient) {
    let wanted = client.stats().renewals + u64::try_from(2 * KINDS.len()).expect("a few");
    eventually("the renewals", || client.stats().renewals >= wanted);
}

/// A call, the number of levels that its thread holds before, and its budget in command timeouts.
type Call = (
    &'static str,
    u32,
    u32,
    fn(&LockClient, &dyn Lock) -> leasehold::Result<()>,
);

const CALLS: &[Call] = &[
    ("lock", 0, 10, |_, lock| lock.lock()),
    ("try_lock, once", 0, 1, |_, lock| {
        lock.try_lock(Duration::ZERO, Lease::RENEWED).map(drop)
    }),
    ("try_lock", 0, 1, |_, lock| {
        lock.try_lock(millis(50), Lease::RENEWED).map(drop)
    }),
    ("lock, nested", 1, 10, |_, lock| lock.lock_with(long())),
    ("unlock, nested", 2, 3, |_, lock| lock.unlock()),
    ("unlock", 1, 3, |_, lock| lock.unlock()),
    ("is_locked", 0, 1, |_, lock| lock.is_locked().map(drop)),
    ("remaining", 0, 1, |_, lock| lock.remaining().map(drop)),
    ("inspect", 0, 1, |client, lock| {
        client.inspect(lock.name()).map(drop)
    }),
    ("force_unlock", 0, 1, |client, lock| {
        client.force_unlock(lock.name()).map(drop)
    }),
];

/// Longer than every hang.
fn long() -> Lease {
    Lease::fixed(SOON.get() * 6)
}

/// Makes one call on its own lock while the server hangs. It ends in time, with `Unavailable`
/// unless the server is back by then, and leaves nothing in Redis.
fn ends_in_time(
    &(what, levels, budget, call): &Call,
    kind: &Kind,
    client: &LockClient,
    lease: Duration,
    hang: &[Barrier; 2],
) {
    let lock = (kind.lock)(client, &unique("call"));
    let what = format!("{what} of a {} lock", kind.name);
    for _ in 0..levels {
        lock.lock_with(long()).expect("the server still replies");
    }
    for moment in hang {
        moment.wait();
    }
    let bound = timeout(lease) * budget + GRACE + SLIP.get();
    let result = within(bound, &what, || call(client, &*lock));
    let is_expected = matches!(
        result,
        Ok(()) | Err(Error::Unavailable { .. } | Error::NotReleased { .. })
    );
    assert!(is_expected, "{what}: {result:?}");
    eventually("a reply again", || client.inspect(lock.name()).is_ok());
    while lock.is_held_by_current_thread() {
        lock.unlock().expect("its lease still runs");
    }
    eventually("nothing to be left of it", || {
        matches!(lock.is_locked(), Ok(false))
    });
}

/// Waits for a lock that excludes a lock of another client. Calls `look` when it is acquired.
fn get<T>(lock: &dyn Lock, look: impl FnOnce() -> T) -> leasehold::Result<T> {
    assert!(lock.try_lock(SOON.get() * 3, Lease::RENEWED)?);
    let seen = look();
    lock.unlock().map(|()| seen)
}

/// Begins every call for every kind of lock. They meet at both barriers.
fn call_all<'scope>(
    scope: &'scope Scope<'scope, '_>,
    callers: &'scope LockClient,
    lease: Duration,
    hang: &'scope [Barrier; 2],
) {
    for call in CALLS {
        for kind in &KINDS {
            scope.spawn(move || ends_in_time(call, kind, callers, lease, hang));
        }
    }
}

fn barriers() -> [Barrier; 2] {
    [0, 1].map(|_| Barrier::new(CALLS.len() * KINDS.len() + 1))
}

fn after_a_hang_of_a_lease_the_holder_is_notified_before_another_client_has_the_lock(
    deployment: &Deployment,
) {
    let lease = LEASE.get() * 2;
    let [ours, callers] = [(); 2].map(|()| client(deployment, lease));
    // They wait for longer than the hang.
    let rivals = builder_of(deployment, lease, timeout(lease) * 3)
        .build()
        .unwrap();
    let held = hold_all_kinds(&ours, lease);
    let events = ours.events();
    let hang = barriers();
    thread::scope(|scope| {
        call_all(scope, &callers, lease, &hang);
        let waiting: Vec<_> = guards(&held)
            .map(|(kind, guard)| {
                let lock = (kind.rival)(&rivals, guard.name());
                scope.spawn(move || get(&*lock, || guard.check().is_err()))
            })
            .collect();
        hang[0].wait();
        await_renewals(&ours);
        deployment.pause();
        hang[1].wait();
        thread::sleep(lease + millis(50));
        deployment.resume();
        for (rival, (kind, guard)) in waiting.into_iter().zip(guards(&held)) {
            let checked = rival.join().expect("no panic").expect("the lock");
            assert!(checked, "{} at the moment of its rival", guard.name());
            // The message may be late by a quarter of a timeout, because the server hangs.
            let rung = guard.lost().recv_timeout(SLIP.get());
            assert_eq!(rung, Ok(LostReason::Expired), "{}", kind.name);
        }
    });
    let mut names: Vec<_> = guards(&held)
        .map(|(_, guard)| guard.name().to_owned())
        .collect();
    let all = u64::try_from(names.len()).expect("a few");
    assert_eq!(ours.stats().lost, all);
    let lost = lost_events(&events).into_iter();
    let mut lost: Vec<String> = lost.map(|(name, _)| name).collect();
    lost.sort_unstable();
    names.sort_unstable();
    assert_eq!(lost, names, "one event for each loss");
    for guard in held.into_iter().flat_map(|(_, guards)| guards) {
        assert_error!(guard.unlock(), Lost);
    }
}

/// A failed renewal is no loss as long as there is time for another one.
fn a_hang_of_half_a_lease_loses_no_lock(deployment: &Deployment) {
    let lease = LEASE.get() * 4;
    let [callers, rivals] = [(); 2].map(|()| client(deployment, lease));
    // A confirmation without a reply would put off the renewal until the hang has ended.
    let ours = builder_of(deployment, lease, timeout(lease)).confirm_every(Duration::ZERO);
    let ours = ours.build().unwrap();
    let held = hold_all_kinds(&ours, lease * 4);
    let hang = barriers();
    thread::scope(|scope| {
        call_all(scope, &callers, lease, &hang);
        let waiting: Vec<_> = guards(&held)
            .map(|(kind, guard)| {
                let lock = (kind.rival)(&rivals, guard.name());
                scope.spawn(move || get(&*lock, || ()))
            })
            .collect();
        hang[0].wait();
        await_renewals(&ours);
        // The next renewal is due during the hang.
        thread::sleep(lease * 3 / 10);
        let before = ours.stats();
        deployment.pause();
        hang[1].wait();
        let stands = || guards(&held).all(|(_, guard)| guard.check().is_ok());
        throughout(lease / 2, "held", stands);
        deployment.resume();
        await_renewals(&ours);
        let stats = ours.stats();
        assert!(
            stats.renewals_unknown > before.renewals_unknown,
            "{stats:?}"
        );
        throughout(lease, "held", stands);
        assert!(waiting.iter().all(|rival| !rival.is_finished()));
        for guard in held.into_iter().flat_map(|(_, guards)| guards) {
            guard.unlock().expect("it was held all the time");
        }
        for rival in waiting {
            rival.join().expect("no panic").expect("the lock");
        }
    });
    assert_eq!(ours.stats().lost, 0);
}

/// By the calls of all threads together.
#[test]
fn an_outage_is_logged_once_and_so_is_its_end() {
    logs::keep();
    let server = Server::start();
    let builder = builder(&server.url()).connect_timeout(millis(100));
    let client = builder.command_timeout(millis(100)).build().unwrap();
    client.ping().expect("it replies");
    let outages = || {
        let mut warnings = logs::warnings_about(&server.address());
        warnings.retain(|warning| warning.contains("the server does not reply"));
        warnings.len()
    };
    for outage in 1..=2 {
        server.pause();
        assert_eq!(outages(), outage - 1);
        thread::scope(|scope| {
            for name in ["one", "two", "three", "four"] {
                let lock = client.reentrant_lock(name);
                scope.spawn(move || {
                    // The first second, the longest pause between two attempts, and two timeouts.
                    let wait = Duration::from_millis(1_700) + millis(200);
                    let result = lock.try_lock(wait, Lease::RENEWED);
                    assert!(matches!(result, Err(Error::Unavailable { .. })));
                });
            }
        });
        // The reporter thread logs.
        eventually("the outage in the log", || outages() == outage);
        server.resume();
        eventually("a reply", || client.ping().is_ok());
        let ends = || {
            let lines = logs::lines_about(&server.address(), |level| level == Level::INFO);
            let ends = lines.iter().filter(|line| line.contains("replies again"));
            ends.count()
        };
        eventually("its end in the log", || ends() == outage);
        throughout(A_WHILE.get(), "once", || {
            (outages(), ends()) == (outage, outage)
        });
    }
}
