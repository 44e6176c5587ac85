//! Holders that are not Leasehold clients: a Java service, a process that died.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockClient};

use crate::support::child::Process;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::{Stop, client, unique};

const JAVA: &str = "6f0829ed-bfd3-4e6f-bba3-6f3d66cd176c:54";

/// Acquires as Redisson does: HINCRBY and PEXPIRE.
fn java_takes(server: &Server, name: &str, lease: Option<Duration>) {
    server.ask::<()>(redis::cmd("HINCRBY").arg(name).arg(JAVA).arg(1));
    if let Some(lease) = lease {
        let millis = u64::try_from(lease.as_millis()).unwrap();
        server.ask::<()>(redis::cmd("PEXPIRE").arg(name).arg(millis));
    }
}

/// Releases as Redisson does: DEL and PUBLISH.
fn java_releases(server: &Server, name: &str) {
    redis::pipe()
        .atomic()
        .cmd("DEL")
        .arg(name)
        .cmd("PUBLISH")
        .arg(format!("redisson_lock__channel:{{{name}}}"))
        .arg("0")
        .exec(&mut server.connection())
        .unwrap();
}

/// A client waits until the other holder releases, and then gets the lock soon.
fn a_waiter_gets_the_lock_soon_after(
    lease: Option<Duration>,
    let_go: impl FnOnce(&Server, &str) -> Instant,
) {
    let server = Server::start();
    let name = unique("java");
    let client = client(&server.url());
    java_takes(&server, &name, lease);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let lock = client.reentrant_lock(&name);
            assert!(lock.try_lock(SOON.get() * 2, Lease::RENEWED).unwrap());
            let got = Instant::now();
            lock.unlock().unwrap();
            got
        });
        eventually("the waiter to be subscribed", || {
            let counts: (String, u64) = server.ask(
                redis::cmd("PUBSUB")
                    .arg("NUMSUB")
                    .arg(format!("redisson_lock__channel:{{{name}}}")),
            );
            counts.1 == 1
        });
        let free = let_go(&server, &name);
        let late = waiter.join().unwrap().saturating_duration_since(free);
        assert!(
            late <= SLIP.get(),
            "it had the lock {late:?} after it was free"
        );
    });
}

fn release(server: &Server, name: &str) -> Instant {
    // The second try of the waiter must be over.
    thread::sleep(SLIP.get());
    let free = Instant::now();
    java_releases(server, name);
    free
}

#[test]
fn a_release_by_another_program_wakes_a_waiter() {
    a_waiter_gets_the_lock_soon_after(Some(SOON.get() * 6), release);
}

#[test]
fn a_hold_of_another_program_without_a_time_to_live_is_waited_for() {
    a_waiter_gets_the_lock_soon_after(None, release);
}

#[test]
fn the_end_of_a_lease_of_another_program_is_detected() {
    let lease = LEASE.get();
    let expiry = |server: &Server, name: &str| {
        let left: i64 = server.ask(redis::cmd("PTTL").arg(name));
        Instant::now() + Duration::from_millis(u64::try_from(left).expect("it still runs"))
    };
    a_waiter_gets_the_lock_soon_after(Some(lease), expiry);
}

#[test]
fn a_hold_of_another_program_is_respected() {
    let server = Server::start();
    let name = unique("java");
    let client = client(&server.url());
    let lock = client.reentrant_lock(&name);
    for lease in [Some(SOON.get()), None] {
        java_takes(&server, &name, lease);
        assert!(!lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
        assert!(!lock.try_lock(A_WHILE.get(), Lease::RENEWED).unwrap());
        assert!(matches!(lock.unlock(), Err(Error::NotHeld { .. })));
        assert!(lock.is_locked().unwrap());
        let left = lock.remaining_lease().unwrap().expect("it is held");
        assert_eq!(left == Duration::MAX, lease.is_none(), "{left:?}");
        let status = client.inspect(&name).unwrap();
        assert_eq!(status.owner.as_deref(), Some(JAVA));
        assert_eq!(status.time_to_live.is_none(), lease.is_none());
        let fields: Vec<(String, u32)> = server.ask(redis::cmd("HGETALL").arg(&name));
        assert_eq!(fields, [(JAVA.to_owned(), 1)]);
        java_releases(&server, &name);
    }
    lock.acquire().unwrap().unlock().unwrap();
}

fn waits(client: &LockClient, name: &str) -> Duration {
    let start = Instant::now();
    let lock = client.reentrant_lock(name);
    assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
    lock.unlock().unwrap();
    start.elapsed()
}

/// The process is killed, so only the end of its lease releases the lock.
#[test]
#[ignore = "soak"]
fn a_killed_process_releases_its_lock_within_a_lease() {
    let server = Server::start();
    let name = unique("killed");
    let mut child = Process::start("hold", &[&server.url(), &name]);
    assert_eq!(child.read_line(), "held");
    let client = client(&server.url());
    assert!(
        !client
            .reentrant_lock(&name)
            .try_lock(LEASE.get() * 2, Lease::RENEWED)
            .unwrap()
    );
    child.kill();
    let waited = waits(&client, &name);
    assert!(waited <= LEASE.get() + SLIP.get(), "{waited:?}");
}

/// The unlock of a process that was stopped through its lease reports the loss, and does not
/// release the next hold.
#[test]
fn a_process_that_is_stopped_through_its_lease_gets_an_error() {
    let server = Server::start();
    let name = unique("asleep");
    let mut child = Process::start("hold", &[&server.url(), &name]);
    assert_eq!(child.read_line(), "held");
    child.signal("STOP");
    let client = client(&server.url());
    let lock = client.reentrant_lock(&name);
    assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
    let held = client.inspect(&name).unwrap().owner;
    child.signal("CONT");
    child.send_line("end");
    let line = child.read_line();
    assert!(line.contains("was lost"), "{line}");
    assert_eq!(client.inspect(&name).unwrap().owner, held);
    lock.unlock().unwrap();
    child.finish();
}

#[test]
fn a_release_by_another_process_wakes_a_waiter() {
    let server = Server::start();
    let name = unique("process");
    let mut child = Process::start("hold", &[&server.url(), &name]);
    assert_eq!(child.read_line(), "held");
    let client = client(&server.url());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| waits(&client, &name));
        eventually("the waiter waits", || client.stats().wakeups_by_message > 0);
        child.send_line("end");
        assert_eq!(child.read_line(), "released");
        within(millis(500), "the wake-up", || waiter.join().unwrap());
    });
    child.finish();
}

/// By Redisson's naming rule, `a` and `{a}` are two locks with one channel.
#[test]
fn locks_that_share_a_channel_do_not_lose_messages() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let names = ["a", "{a}"];
    let held = names.map(|name| theirs.reentrant_lock(name));
    for lock in &held {
        lock.lock_with(Lease::fixed(SOON.get() * 6)).unwrap();
    }
    thread::scope(|scope| {
        let waiters = names.map(|name| {
            let lock = ours.reentrant_lock(name);
            scope.spawn(move || lock.acquire().unwrap().unlock().unwrap())
        });
        throughout(A_WHILE.get(), "both wait", || {
            waiters.iter().all(|waiter| !waiter.is_finished())
        });
        for (lock, waiter) in held.iter().zip(&waiters) {
            // The waiter of the released lock gets it, whichever that is.
            theirs.force_unlock(lock.name()).unwrap();
            eventually("its waiter to get it", || waiter.is_finished());
        }
    });
}

/// A thread is woken by a message, and its request is refused. Meanwhile the next message announces
/// the release. Threads that use the processors make the thread wake late.
#[test]
fn a_release_soon_after_another_message_is_noticed() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock("lock");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _stop = Stop(&is_over);
        for round in 0..200 {
            java_takes(&server, "lock", Some(SOON.get() * 10));
            let waiter = scope.spawn(|| lock.acquire().unwrap().unlock().unwrap());
            // Most often, it waits by now.
            thread::sleep(Duration::from_millis(2));
            let mut message = redis::cmd("PUBLISH");
            server.ask::<()>(message.arg("redisson_lock__channel:{lock}").arg(0));
            thread::sleep(Duration::from_micros(round % 10 * 20));
            java_releases(&server, "lock");
            eventually("the waiter to get it", || waiter.is_finished());
        }
    });
}
