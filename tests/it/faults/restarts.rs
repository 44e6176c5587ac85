//! The server restarts or loses keys while locks are held.

mod script_flushes;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use leasehold::{
    Error, Lease, Lock, LockClient, LockClientBuilder, LockEvent, LockGuard, LostReason,
};

use super::deployment::Deployment;
use super::in_redis;
use super::kinds::{KINDS, Kind};
use crate::support::outcome::assert_error;
use crate::support::server::Server;
use crate::support::timing::{
    A_WHILE, LEASE, Millis, SLIP, SOON, eventually, millis, throughout, within,
};
use crate::support::{builder, on_another_thread, unique};

/// Longer than a restart of the server.
const LONG: Millis = Millis(3_000);

/// The field of another client.
const OTHER_OWNER: &str = "00000000-0000-4000-8000-000000000000:7";

/// Locks that one client holds, with their kinds, and its events.
struct Holder {
    client: LockClient,
    events: Receiver<LockEvent>,
    held: Vec<(&'static Kind, LockGuard)>,
}

impl Holder {
    /// Holds two locks of each kind: one is renewed, and one has a fixed lease.
    fn of_all_kinds(builder: LockClientBuilder) -> Self {
        let client = builder
            .watchdog_lease(LONG.get())
            .build()
            .expect("the settings are valid");
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

    fn names(&self) -> Vec<String> {
        let names = self.held.iter().map(|(_, guard)| guard.name().to_owned());
        names.collect()
    }

    /// The locks that exclude those of the holder, of another client.
    fn rivals(&self, client: &LockClient) -> Vec<Box<dyn Lock>> {
        let locks = self.held.iter();
        locks
            .map(|(kind, guard)| (kind.rival)(client, guard.name()))
            .collect()
    }

    /// Asserts that each guard, the events and each unlock report the loss and its reason while the
    /// lease still runs. The watchdog asks after two thirds of it, so that the last third is left
    /// for a machine that is busy with other tests. When the lease ends, the reason would be
    /// another.
    #[track_caller]
    fn assert_notified(self, reason: LostReason) {
        let end = Instant::now() + LONG.get();
        let losses = u64::try_from(self.held.len()).expect("a few");
        for (_, guard) in &self.held {
            let loss = guard.lost().recv_deadline(end);
            assert_eq!(loss, Ok(reason), "{}", guard.name());
            assert!(says(guard.check(), reason));
            assert_eq!(guard.remaining(), Duration::ZERO);
        }
        assert_eq!(self.client.stats().lost, losses);
        let mut names = self.names();
        eventually("the events of the losses", || {
            for event in self.events.try_iter() {
                if let LockEvent::Lost {
                    lock,
                    reason: found,
                } = event
                {
                    assert_eq!(found, reason);
                    names.retain(|name| **name != *lock);
                }
            }
            names.is_empty()
        });
        for (_, guard) in self.held {
            assert!(says(guard.unlock(), reason));
        }
        assert_eq!(self.client.stats().lost, losses, "each is lost once");
    }
}

fn says(result: leasehold::Result<()>, expected: LostReason) -> bool {
    matches!(result, Err(Error::Lost { reason, .. }) if reason == expected)
}

#[test]
fn a_restart_without_the_data_is_reported() {
    let server = Server::start();
    let holder = Holder::of_all_kinds(builder(&server.url()));
    server.restart_empty();
    holder.assert_notified(LostReason::Deleted);
}

/// Two clients wait for each lock when the server loses it. One of them has it until the holder has
/// been notified and has unlocked. Then the other has it. No message is sent for a lost key.
#[test]
fn clients_that_wait_for_a_lost_lock_get_it_one_after_the_other() {
    let server = Server::start();
    let holder = Holder::of_all_kinds(builder(&server.url()));
    let clients = [(); 2].map(|()| {
        let client = builder(&server.url()).watchdog_lease(LONG.get()).build();
        client.expect("the settings are valid")
    });
    let names = holder.names();
    let told = AtomicBool::new(false);
    let rivals = clients.each_ref().map(|client| holder.rivals(client));
    thread::scope(|scope| {
        let mut waiting = Vec::new();
        for lock in rivals.into_iter().flatten() {
            let (server, told) = (&server, &told);
            waiting.push(scope.spawn(move || {
                let guard = lock.acquire().expect("it is free in the end");
                let mine = in_redis::holders(server, lock.name());
                assert_eq!(mine.len(), 1, "{mine:?}");
                let alone =
                    || guard.check().is_ok() && in_redis::holders(server, lock.name()) == mine;
                eventually("the holder to be notified", || {
                    assert!(alone());
                    told.load(Ordering::SeqCst)
                });
                throughout(A_WHILE.get(), "the only holder", alone);
                guard.unlock().expect("it was held all the time");
            }));
        }
        for name in &names {
            let all = || in_redis::listeners(&server, name) == 2;
            eventually("both clients to wait", all);
        }
        server.restart_empty();
        let end = Instant::now() + LONG.get();
        for (kind, guard) in holder.held {
            let reason = guard.lost().recv_deadline(end);
            // The watchdog may find the key missing before a client that waits has the lock.
            let known = [Ok(LostReason::Deleted), Ok(LostReason::Taken)];
            assert!(known.contains(&reason), "{}: {reason:?}", kind.name);
            assert!(guard.check().is_err());
            assert_error!(guard.unlock(), Lost);
        }
        told.store(true, Ordering::SeqCst);
        for thread in waiting {
            thread.join().expect("it had the lock");
        }
    });
    let left: Vec<String> = server.ask(redis::cmd("KEYS").arg("*"));
    assert_eq!(left, [""; 0]);
}

everywhere! {
    a_key_that_is_deleted_taken_over_or_of_another_type_is_reported_and_stays
    a_hundred_holders_are_notified_of_a_flush;
}

fn a_key_that_is_deleted_taken_over_or_of_another_type_is_reported_and_stays(
    deployment: &Deployment,
) {
    for (commands, reason) in [
        ("DEL {key}", LostReason::Deleted),
        ("DEL {key};HSET {key} {owner} 1", LostReason::Taken),
        ("SET {key} mine", LostReason::Taken),
    ] {
        let holder = Holder::of_all_kinds(deployment.builder());
        let names = holder.names();
        for name in &names {
            let mut changes = redis::pipe();
            changes.atomic();
            for command in commands.split(';') {
                let command = command
                    .replace("{key}", name)
                    .replace("{owner}", OTHER_OWNER);
                let mut words = command.split(' ');
                changes.cmd(words.next().expect("a command"));
                changes.arg(words.collect::<Vec<_>>());
            }
            let mut redis = deployment.server_of(name).connection();
            changes.exec(&mut redis).expect("the server replies");
        }
        holder.assert_notified(reason);
        for name in &names {
            let key: Option<Vec<u8>> = deployment.ask("DUMP", name);
            assert_eq!(key.is_some(), reason == LostReason::Taken, "{commands}");
            if commands.contains("HSET") {
                assert_eq!(deployment.ask::<Vec<String>>("HKEYS", name), [OTHER_OWNER]);
            }
        }
    }
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
    holder.assert_notified(LostReason::Deleted);
}

/// Opens this many connections of the client's pool: no reply comes before all are in use.
fn fill_pool(server: &Server, client: &LockClient, connections: u32) {
    let longest = SOON.get().as_millis();
    server.run(&format!("CLIENT PAUSE {longest} WRITE"));
    thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let lock = client.reentrant_lock(&unique("fill"));
                lock.acquire().expect("a reply, later").unlock()
            });
        }
        eventually("all connections to be in use", || {
            let info: String = server.ask(redis::cmd("INFO").arg("clients"));
            let mut lines = info.lines();
            let blocked = lines.find_map(|line| line.strip_prefix("blocked_clients:"));
            // The watchdog may have one more.
            let blocked = blocked.and_then(|blocked| blocked.parse::<u32>().ok());
            blocked.is_some_and(|blocked| blocked >= connections)
        });
        server.run("CLIENT UNPAUSE");
    });
}

/// All connections of the pool are broken afterwards. One attempt with each would take longer than
/// the unlock may.
#[test]
#[ignore = "soak"]
fn a_restart_with_the_data_affects_no_call() {
    const POOL: u32 = 10;
    let server = Server::options().keeps_data().start();
    let timeout = millis(500);
    let client = builder(&server.url())
        .watchdog_lease(LONG.get())
        .command_timeout(timeout)
        .connections(POOL)
        .build()
        .expect("the settings are valid");
    let lock = client.reentrant_lock(&unique("kept"));
    for _ in 0..3 {
        fill_pool(&server, &client, POOL);
        let outer = lock.acquire().expect("it is free");
        let inner = lock.acquire().expect("this thread holds it");
        server.restart();
        let budget = timeout * 3 + SLIP.get();
        within(budget, "the inner unlock", || inner.unlock()).expect("nothing happened");
        assert_eq!(lock.hold_count(), 1);
        let renewals = client.stats().renewals;
        eventually("a renewal", || client.stats().renewals > renewals);
        outer.check().expect("it is held all the time");
        let other = crate::support::client(&server.url()).reentrant_lock(lock.name());
        let taken = on_another_thread(|| other.try_lock(Duration::ZERO, Lease::RENEWED));
        assert!(!taken.expect("a reply"), "the lock is kept");

        fill_pool(&server, &client, POOL);
        server.restart();
        within(budget, "the unlock", || outer.unlock()).expect("nothing happened");
        assert!(!lock.is_locked().expect("a reply"), "and it is free");
    }
    assert_eq!(client.stats().lost, 0);
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
