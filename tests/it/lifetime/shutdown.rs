//! The shutdown of a client: what its threads have, threads that wait, calls at the same moment,
//! servers that hang.

mod calls;
mod waiting;

use crossbeam_channel::RecvTimeoutError;
use leasehold::Result;

use crate::support::prelude::*;

/// A client whose locks do not end by themselves within a test.
fn lasting(url: &str) -> LockClient {
    let builder = builder(url).watchdog_lease(SOON.get() * 6);
    builder.linger(SOON.get()).build().unwrap()
}

fn is_shut_down<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::ShutDown { .. }))
}

#[track_caller]
fn is_lost<T: std::fmt::Debug>(result: &Result<T>) {
    assert_lost(result, LostReason::ShutDown);
}

#[test]
fn what_the_client_has_is_released_and_its_holders_are_notified() {
    let server = Server::start();
    let client = lasting(&server.url());
    let events = client.events();
    let semaphore = client.leased_semaphore("permits");
    semaphore.try_set_permits(1).unwrap();
    let permit = semaphore.acquire().unwrap();
    let plain = client.reentrant_lock("plain");
    let fixed = long();
    let guards = [
        plain.acquire().unwrap(),
        plain.acquire().unwrap(),
        client.fair_lock("fair").acquire_with(fixed).unwrap(),
        client.read_write_lock("shared").read().acquire().unwrap(),
        client.multi_lock(["b", "a"]).acquire().unwrap(),
    ];
    let fenced = client.fenced_lock("fenced").acquire().unwrap();
    let unguarded = client.reentrant_lock("unguarded");
    unguarded.lock().unwrap();
    // It lingers.
    pair(&client.reentrant_lock("idle"));
    // A level below asked for this.
    let kept = client.reentrant_lock("kept");
    let outer = kept.acquire().unwrap();
    kept.acquire()
        .unwrap()
        .unlock_after(SOON.get() * 6)
        .unwrap();
    let lost = guards[0].lost();

    client.shutdown(SOON.get()).unwrap();

    let other = crate::support::client(&server.url());
    for name in ["plain", "fair", "a", "b", "fenced", "unguarded", "idle"] {
        assert_eq!(other.inspect(name).unwrap().owner, None, "{name}");
    }
    let shared = other.read_write_lock("shared").write();
    assert!(shared.try_acquire_now().unwrap().is_some());
    assert_eq!(other.leased_semaphore("permits").available().unwrap(), 1);
    assert!(
        other.inspect("kept").unwrap().owner.is_some(),
        "as asked for"
    );

    assert_eq!(lost.recv_timeout(SOON.get()), Ok(LostReason::ShutDown));
    assert_eq!(lost_events(&events).len(), 9);
    for guard in guards {
        assert!(guard.is_lost() && guard.remaining().is_zero(), "{guard:?}");
        is_lost(&guard.confirm());
        is_lost(&guard.unlock());
    }
    is_lost(&permit.release());
    is_lost(&unguarded.unlock());
    assert_matches!(unguarded.unlock(), Err(Error::NotHeld { .. }));
    assert!(fenced.is_lost() && outer.is_lost());
    drop((fenced, outer));
    // Nothing of this has touched what the other client has meanwhile.
    let held = other.reentrant_lock("plain").acquire().unwrap();
    held.confirm().unwrap();
}

#[test]
fn later_calls_fail() {
    let server = Server::start();
    let client = client(&server.url());
    let (semaphore, latch) = (client.semaphore("slots"), client.count_down_latch("start"));
    semaphore.try_set_permits(1).unwrap();
    semaphore.acquire(1).unwrap();
    latch.try_set_count(1).unwrap();
    client.shutdown(SOON.get()).unwrap();
    client.shutdown(Duration::ZERO).unwrap();
    let lock = client.reentrant_lock("lock");
    let leased = client.leased_semaphore("leased");
    let mut results = every_call(&lock);
    results.extend([
        ("notify_all", lock.condition("ready").notify_all()),
        ("fair", client.fair_lock("lock").lock()),
        ("several", client.multi_lock(["a", "b"]).lock()),
        ("read", client.read_write_lock("shared").read().lock()),
        ("a leased permit", leased.acquire().map(drop)),
        ("try_set_permits", leased.try_set_permits(1).map(drop)),
        ("a permit", semaphore.acquire(1)),
        ("available", semaphore.available().map(drop)),
        ("wait", latch.wait()),
        ("count", latch.count().map(drop)),
        ("inspect", client.inspect("lock").map(drop)),
        ("force_unlock", client.force_unlock("lock").map(drop)),
        ("ping", client.ping()),
    ]);
    for (call, result) in results {
        assert!(is_shut_down(&result), "{call}: {result:?}");
    }
    assert_matches!(lock.unlock(), Err(Error::NotHeld { .. }));
    // Other processes may wait for these.
    semaphore.release(1).unwrap();
    assert_eq!(latch.count_down().unwrap(), 0);
}

/// Every acquire of a server that replies slowly, with the shutdown during the request.
#[test]
fn a_lock_that_is_granted_after_the_shutdown_is_released_and_lost() {
    let server = Server::start();
    let client = lasting(&server.url());
    let lock = client.reentrant_lock("lock");
    client.ping().unwrap();
    server.pause();
    thread::scope(|scope| {
        let (sender, tasks) = bounded(1);
        let waiting = scope.spawn(|| {
            let sender = sender;
            sender.send(Task::current()).unwrap();
            let result = lock.try_acquire(SOON.get(), Lease::RENEWED);
            let result = result.map(|guard| guard.map(|guard| guard.check()));
            (result, lock.hold_count())
        });
        let task = tasks.recv().unwrap();
        eventually("the thread to wait for its reply", || task.is_asleep());
        let timeout = millis(50);
        within(timeout + SLIP.get(), "shutdown", || {
            client.shutdown(timeout)
        })
        .unwrap_err();
        server.resume();
        let (result, count) = waiting.join().unwrap();
        match &result {
            Ok(Some(check)) => is_lost(check),
            other => assert!(is_shut_down(other), "{other:?}"),
        }
        assert_eq!(count, 0);
    });
    client.shutdown(SOON.get()).unwrap();
    let other = crate::support::client(&server.url());
    assert_eq!(other.inspect("lock").unwrap().owner, None);
}

#[test]
fn a_server_that_hangs_delays_no_shutdown() {
    let server = Server::start();
    let client = lasting(&server.url());
    let lock = client.reentrant_lock("lock");
    let guard = lock.acquire().unwrap();
    server.pause();
    let timeout = millis(200);
    for _ in 0..2 {
        let result = within(timeout + SLIP.get(), "shutdown", || {
            client.shutdown(timeout)
        });
        match result {
            Err(Error::NotReleased { node, cause, .. }) => {
                assert_eq!(node, server.address());
                println!("{cause}");
            }
            other => panic!("{other:?}"),
        }
        assert!(guard.is_lost());
        assert!(is_shut_down(&lock.try_acquire_now()));
    }
    server.resume();
    client.shutdown(SOON.get()).unwrap();
    let other = crate::support::client(&server.url());
    assert_eq!(
        other.inspect("lock").unwrap().owner,
        None,
        "long before its lease ends"
    );
}

#[test]
fn a_client_that_was_never_used_is_shut_down_without_a_server() {
    let client = LockClient::connect("redis://127.0.0.1:1").unwrap();
    within(SLIP.get(), "shutdown", || client.shutdown(Duration::MAX)).unwrap();
    drop(client);
}

#[test]
fn a_redlock_loses_the_share_of_a_client_that_is_shut_down() {
    let servers = Independent::start(3);
    let clients: Vec<LockClient> = servers.urls().iter().map(|url| lasting(url)).collect();
    let lock = RedLock::new(&clients, "lock");
    let guard = lock.acquire().unwrap();
    clients[1].shutdown(SOON.get()).unwrap();
    guard.check().unwrap();
    assert!(is_shut_down(&on_another_thread(|| lock
        .try_acquire_now()
        .map(drop))));
    clients[0].shutdown(SOON.get()).unwrap();
    is_lost(&guard.check());
    drop(guard);
    for server in servers.servers() {
        let key = redis::cmd("EXISTS").arg("lock").clone();
        assert!(!server.ask::<bool>(&key), "{}", server.address());
    }
}

#[test]
fn the_threads_that_talk_to_redis_end() {
    let server = Server::start();
    let child = Process::start("shut_down", &[&server.url()]);
    child.finish();
}

/// The role: in its own process, because threads are counted.
pub fn shut_down(arguments: &[&str]) {
    let client = client(arguments[0]);
    let held = crate::support::client(arguments[0]).reentrant_lock("lock");
    held.lock().unwrap();
    let is_waiting = || {
        client
            .reentrant_lock("lock")
            .try_lock(LEASE.get() / 4, Lease::RENEWED)
    };
    assert!(!is_waiting().unwrap(), "it has subscribed by now");
    let of_client = ["leasehold-watch", "leasehold-subsc"];
    assert!(
        of_client
            .iter()
            .all(|name| threads().iter().any(|found| found == name))
    );
    drop(held);
    client.shutdown(SOON.get()).unwrap();
    // A thread that was joined may still be ending.
    eventually("the threads to end", || {
        !of_client
            .iter()
            .any(|name| threads().iter().any(|found| found == name))
    });
    assert!(is_shut_down(&client.reentrant_lock("lock").lock()));
    child::send_line("done");
}

/// The names of the threads of this process.
pub fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a Linux /proc");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// A thread that reads the events ends with the client.
#[test]
fn the_events_end_after_the_client() {
    let server = Server::start();
    let client = client(&server.url());
    let events = client.events();
    let guard = client.reentrant_lock("lock").acquire().unwrap();
    client.force_unlock("lock").unwrap();
    drop((guard, client));
    let deadline = Instant::now() + SOON.get();
    let all = std::iter::from_fn(|| Some(events.recv_deadline(deadline)));
    let all: Vec<_> = all.take(2).collect();
    assert_matches!(all[0], Ok(LockEvent::Lost { .. }));
    assert_matches!(all[1], Err(RecvTimeoutError::Disconnected));
}
