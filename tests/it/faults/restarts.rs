//! The server restarts or loses keys while locks are held.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use leasehold::{
    Error, Lease, LockClient, LockClientBuilder, LockEvent, LockGuard, LostReason, ReentrantLock,
};

use super::deployment::Deployment;
use crate::support::server::Server;
use crate::support::timing::{LEASE, Millis, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::{builder, client, on_another_thread, unique};

/// Longer than a restart of the server.
const LONG: Millis = Millis(3_000);

/// The field of another client.
const OTHER_OWNER: &str = "00000000-0000-4000-8000-000000000000:7";

/// Locks that one client holds, and its events.
struct Holder {
    client: LockClient,
    events: Receiver<LockEvent>,
    guards: Vec<LockGuard>,
}

impl Holder {
    /// Holds one renewed lock and one with a fixed lease.
    fn of_two(builder: LockClientBuilder) -> Self {
        let client = builder
            .watchdog_lease(LONG.get())
            .build()
            .expect("the settings are valid");
        let fixed = Lease::fixed(LONG.get());
        let guards = [Lease::RENEWED, fixed].map(|lease| {
            let lock = client.reentrant_lock(&unique("held"));
            let guard = lock.try_acquire(Duration::ZERO, lease).expect("a reply");
            guard.expect("no other client holds it")
        });
        Self {
            events: client.events(),
            client,
            guards: guards.into(),
        }
    }

    fn names(&self) -> Vec<String> {
        let names = self.guards.iter().map(|guard| guard.name().to_owned());
        names.collect()
    }

    /// Asserts that each guard, the events and each unlock report the loss and its reason while the
    /// lease still runs. The watchdog asks after two thirds of it, so that the last third is left
    /// for a machine that is busy with other tests. When the lease ends, the reason would be
    /// another.
    #[track_caller]
    fn assert_told(self, reason: LostReason) {
        let end = Instant::now() + LONG.get();
        let losses = u64::try_from(self.guards.len()).expect("a few");
        for guard in &self.guards {
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
        for guard in self.guards {
            assert!(says(guard.unlock(), reason));
        }
        assert_eq!(self.client.stats().lost, losses, "each is lost once");
    }
}

fn says(result: leasehold::Result<()>, expected: LostReason) -> bool {
    matches!(result, Err(Error::Lost { reason, .. }) if reason == expected)
}

fn owners(server: &Server, name: &str) -> Vec<String> {
    server.ask(redis::cmd("HKEYS").arg(name))
}

#[test]
fn a_restart_without_the_data_is_reported() {
    let server = Server::start();
    let holder = Holder::of_two(builder(&server.url()));
    server.restart_empty();
    holder.assert_told(LostReason::Deleted);
}

#[test]
fn a_lock_that_another_client_acquires_after_a_restart_is_reported_as_taken() {
    let server = Server::start();
    let holder = Holder::of_two(builder(&server.url()));
    let names = holder.names();
    server.restart_empty();
    let rival = client(&server.url());
    let taken: Vec<LockGuard> = names
        .iter()
        .map(|name| rival.reentrant_lock(name).acquire().expect("it is free"))
        .collect();
    let theirs = names.iter().map(|name| owners(&server, name));
    let theirs: Vec<_> = theirs.collect();
    holder.assert_told(LostReason::Taken);
    let still = names.iter().map(|name| owners(&server, name));
    assert_eq!(
        still.collect::<Vec<_>>(),
        theirs,
        "no lock of another client is released"
    );
    for guard in taken {
        guard.unlock().expect("it was held all the time");
    }
}

everywhere! {
    a_deleted_key_is_reported
    a_key_of_another_owner_is_reported
    a_key_that_became_another_type_is_reported
    a_hundred_holders_are_notified_of_a_flush;
    repeated_script_flushes_affect_no_call
}

fn a_deleted_key_is_reported(deployment: &Deployment) {
    let holder = Holder::of_two(deployment.builder());
    for name in holder.names() {
        deployment.ask::<()>("DEL", &name);
    }
    holder.assert_told(LostReason::Deleted);
}

fn a_key_of_another_owner_is_reported(deployment: &Deployment) {
    let holder = Holder::of_two(deployment.builder());
    let names = holder.names();
    for name in &names {
        redis::pipe()
            .atomic()
            .del(name)
            .hset(name, OTHER_OWNER, 1)
            .exec(&mut deployment.server_of(name).connection())
            .expect("the server replies");
    }
    holder.assert_told(LostReason::Taken);
    for name in &names {
        assert_eq!(owners(deployment.server_of(name), name), [OTHER_OWNER]);
    }
}

fn a_key_that_became_another_type_is_reported(deployment: &Deployment) {
    let holder = Holder::of_two(deployment.builder());
    let names = holder.names();
    for name in &names {
        let set = redis::cmd("SET").arg(name).arg("mine").clone();
        deployment.server_of(name).ask::<()>(&set);
    }
    holder.assert_told(LostReason::Taken);
    for name in &names {
        assert_eq!(deployment.ask::<String>("GET", name), "mine");
    }
}

fn a_hundred_holders_are_notified_of_a_flush(deployment: &Deployment) {
    let mut holder = Holder::of_two(deployment.builder());
    holder.guards.extend((0..98).map(|_| {
        let lock = holder.client.reentrant_lock(&unique("held"));
        lock.acquire().expect("it is free")
    }));
    for server in deployment.servers() {
        server.ask::<()>(&redis::cmd("FLUSHALL"));
    }
    holder.assert_told(LostReason::Deleted);
}

/// Opens this many connections of the client's pool: no reply comes before all are in use.
fn fill_pool(server: &Server, client: &LockClient, connections: u32) {
    let pause = redis::cmd("CLIENT")
        .arg("PAUSE")
        .arg(u64::try_from(SOON.get().as_millis()).expect("seconds"))
        .arg("WRITE")
        .clone();
    server.ask::<()>(&pause);
    thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let lock = client.reentrant_lock(&unique("fill"));
                lock.acquire().expect("a reply, later").unlock()
            });
        }
        eventually("all connections to be in use", || {
            let info: String = server.ask(redis::cmd("INFO").arg("clients"));
            let blocked = info
                .lines()
                .find_map(|line| line.strip_prefix("blocked_clients:"));
            // The watchdog may have one more.
            blocked.is_some_and(|blocked| {
                blocked
                    .parse()
                    .is_ok_and(|blocked: u32| blocked >= connections)
            })
        });
        server.ask::<()>(redis::cmd("CLIENT").arg("UNPAUSE"));
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
        .pool_size(POOL)
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
    let name = unique("waited");
    let [holder, waiter] = [0, 1].map(|_| {
        let client = builder(&server.url()).watchdog_lease(LONG.get()).build();
        client.expect("the settings are valid")
    });
    let guard = holder.reentrant_lock(&name).acquire().expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let lock = waiter.reentrant_lock(&name);
            lock.try_lock(SOON.get() * 2, Lease::RENEWED)?;
            let got = Instant::now();
            lock.unlock().map(|()| got)
        });
        eventually("the waiter waits", || waiter.stats().wakeups_by_message > 0);
        server.restart();
        throughout(LEASE.get(), "the waiter waits", || !waiting.is_finished());
        let released = Instant::now();
        guard.unlock().expect("it is still held");
        let got = waiting.join().expect("no panic").expect("the lock");
        let took = got.saturating_duration_since(released);
        assert!(took < LEASE.get() / 2, "by a message: {took:?}");
    });
    assert_eq!((holder.stats().lost, waiter.stats().lost), (0, 0));
}

/// Acquires, nests and unlocks until `stop`, never at the same time as another thread.
fn work(lock: &ReentrantLock, busy: &AtomicBool, stop: &AtomicBool) -> leasehold::Result<u64> {
    let mut times = 0;
    while !stop.load(Ordering::Relaxed) {
        let guard = lock.acquire()?;
        assert!(!busy.swap(true, Ordering::SeqCst), "two holders");
        let nested = lock.lock().and_then(|()| lock.unlock());
        let held = nested.and_then(|()| guard.check());
        // Also if the lock failed: the error concerns this thread only.
        busy.store(false, Ordering::SeqCst);
        held?;
        guard.unlock()?;
        times += 1;
    }
    Ok(times)
}

fn repeated_script_flushes_affect_no_call(deployment: &Deployment) {
    // Long enough that no lease ends on a machine that is busy with this test.
    let clients = [0, 1].map(|_| {
        let client = deployment.builder().watchdog_lease(LONG.get()).build();
        client.expect("the settings are valid")
    });
    let kept = clients[0].reentrant_lock(&unique("kept"));
    let kept = kept.acquire().expect("it is free");
    let contended: [(String, AtomicBool); 2] =
        [0, 1].map(|_| (unique("scripts"), AtomicBool::new(false)));
    let stop = AtomicBool::new(false);
    let done: Vec<u64> = thread::scope(|scope| {
        // Four threads for each lock, two of each client.
        let workers: Vec<_> = (0..8)
            .map(|at| {
                let (name, busy) = &contended[at % 2];
                let lock = clients[at / 2 % 2].reentrant_lock(name);
                let stop = &stop;
                scope.spawn(move || work(&lock, busy, stop))
            })
            .collect();
        let mut servers: Vec<_> = deployment
            .servers()
            .iter()
            .map(|s| s.connection())
            .collect();
        for redis in &servers {
            // A read with a timeout fails if the process is stopped meanwhile. The server has a
            // timeout of its own.
            redis.set_read_timeout(None).expect("a setting");
        }
        let end = Instant::now() + LEASE.get() * 3;
        while Instant::now() < end {
            for redis in &mut servers {
                let flushed = redis::cmd("SCRIPT").arg("FLUSH").exec(redis);
                flushed.expect("the server replies");
            }
        }
        stop.store(true, Ordering::Relaxed);
        let workers = workers.into_iter();
        workers
            .map(|worker| worker.join().expect("no panic").expect("no error"))
            .collect()
    });
    // Between processes there is no order, so one may have more holds than another.
    assert!(done.iter().all(|times| *times > 0), "all get on: {done:?}");
    assert!(done.iter().sum::<u64>() > 50, "all get on: {done:?}");
    kept.check().expect("it is renewed all the time");
    for stats in clients.map(|client| client.stats()) {
        assert_eq!((stats.lost, stats.renewals_failed), (0, 0), "{stats:?}");
    }
}
