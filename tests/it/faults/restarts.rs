//! The server restarts or loses keys while locks are held.

use super::deployment::Deployment;
use super::kinds::{KINDS, Kind};
use crate::support::outcome::assert_lost;
use crate::support::prelude::*;

/// Longer than a restart of the server.
const LONG: Millis = Millis(3_000);

/// Locks that one client holds, with their kinds, and its events.
struct Holder {
    client: LockClient,
    events: Subscription<LockEvent>,
    held: Vec<(&'static Kind, LockGuard)>,
}

impl Holder {
    /// Holds two locks of each kind: one is renewed, and one has a fixed lease.
    fn of_all_kinds(builder: LockClientBuilder) -> Self {
        let client = builder.watchdog_lease(LONG.get()).build().unwrap();
        let mut held = Vec::new();
        for kind in &KINDS {
            for lease in [Lease::RENEWED, Lease::fixed(LONG.get())] {
                let lock = (kind.lock)(&client, &unique(kind.name));
                let guard = lock.try_acquire(Duration::ZERO, lease).expect("a reply");
                held.push((kind, guard.expect("no other client holds it")));
            }
        }
        Self {
            events: client.events(),
            client,
            held,
        }
    }

    /// Asserts that each guard, the events and each unlock report that the key was deleted, while
    /// the lease still runs. The watchdog asks after two thirds of it, so that the last third is
    /// left for a machine that is busy with other tests. When the lease ends, the reason would be
    /// another.
    #[track_caller]
    fn assert_notified(self) {
        let end = Instant::now() + LONG.get();
        let losses = u64::try_from(self.held.len()).expect("a few");
        for (_, guard) in &self.held {
            let loss = guard.lost().recv_deadline(end);
            assert_eq!(loss, Ok(LostReason::Deleted), "{}", guard.name());
            assert_lost(&guard.check(), LostReason::Deleted);
            assert_eq!(guard.remaining(), Duration::ZERO);
        }
        assert_eq!(self.client.stats().lost, losses);
        let names = self.held.iter().map(|(_, guard)| guard.name().to_owned());
        let mut names: Vec<String> = names.collect();
        eventually("the events of the losses", || {
            for (lost, reason) in lost_events(&self.events) {
                assert_eq!(reason, LostReason::Deleted);
                names.retain(|name| *name != lost);
            }
            names.is_empty()
        });
        for (_, guard) in self.held {
            assert_lost(&guard.unlock(), LostReason::Deleted);
        }
        assert_eq!(self.client.stats().lost, losses, "each is lost once");
    }
}

#[test]
fn a_restart_without_the_data_is_reported() {
    let server = Server::start();
    let holder = Holder::of_all_kinds(builder(&server.url()));
    server.restart_empty();
    holder.assert_notified();
}

everywhere! {
    a_hundred_holders_are_notified_of_a_flush;
}

fn a_hundred_holders_are_notified_of_a_flush(deployment: &Deployment) {
    let mut holder = Holder::of_all_kinds(deployment.builder());
    holder.held.extend((holder.held.len()..100).map(|at| {
        let kind = &KINDS[at % KINDS.len()];
        let lock = (kind.lock)(&holder.client, &unique("held"));
        (kind, lock.acquire().expect("it is free"))
    }));
    for server in deployment.servers() {
        server.run("FLUSHALL");
    }
    holder.assert_notified();
}

/// A client that waits during the restart gets the lock after its release.
#[test]
fn a_waiter_survives_a_restart_with_the_data() {
    let server = Server::options().keeps_data().start();
    let [holder, waiter] = [0, 1].map(|_| {
        let client = builder(&server.url()).watchdog_lease(LONG.get()).build();
        client.expect("the settings are valid")
    });
    let locks = KINDS.iter().map(|kind| {
        let lock = (kind.lock)(&holder, &unique(kind.name));
        (kind, lock.acquire().expect("it is free"))
    });
    let held: Vec<(&Kind, LockGuard)> = locks.collect();
    thread::scope(|scope| {
        let mut waiting = Vec::new();
        for (kind, guard) in &held {
            let lock = (kind.rival)(&waiter, guard.name());
            waiting.push(scope.spawn(move || {
                assert!(lock.try_lock(SOON.get() * 2, Lease::RENEWED)?);
                let got = Instant::now();
                lock.unlock().map(|()| got)
            }));
        }
        eventually("the waiter waits", || {
            let mut names = held.iter().map(|(_, guard)| guard.name());
            names.all(|name| in_redis::listeners(&server, name) == 1)
        });
        server.restart();
        throughout(LEASE.get(), "the waiter waits", || {
            waiting.iter().all(|thread| !thread.is_finished())
        });
        for (thread, (kind, guard)) in waiting.into_iter().zip(held) {
            let released = Instant::now();
            guard.unlock().expect("it is still held");
            let got = thread.join().expect("no panic").expect("the lock");
            let took = got.saturating_duration_since(released);
            assert!(took < LEASE.get() / 2, "{}: {took:?}", kind.name);
        }
    });
    assert_eq!((holder.stats().lost, waiter.stats().lost), (0, 0));
}
