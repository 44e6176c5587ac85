//! One thread renews many locks, and a problem with one lock does not affect the others.

mod confirm;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockClient, LockEvent, LockGuard, LostReason};

use crate::support::child;
use crate::support::proxy::library_script;
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, eventually, eventually_some, millis, throughout};
use crate::support::{builder, client, unique};

/// The number of locks in one call of the watchdog.
const BATCH: usize = 250;

/// The same number of leases as in the larger test, each 0.6 s long.
#[test]
#[ignore = "soak"]
fn a_thousand_held_locks_are_renewed() {
    let server = Server::start();
    let lease = LEASE.get() * 2;
    let arguments = [
        "1000".into(),
        lease.as_millis().to_string(),
        "3".into(),
        "60".into(),
    ];
    run_many_locks(&server, &arguments);
}

/// Compared with the same renewals without a library: about five times as much, both unoptimised.
/// Includes a confirmation of 250 locks in each second.
#[test]
#[ignore = "soak"]
fn renewals_of_ten_thousand_held_locks_cost_little_processor_time() {
    let server = Server::options().alone().start();
    let arguments = ["10000", "6000", "2", "400"].map(str::to_owned);
    run_many_locks(&server, &arguments);
}

fn run_many_locks(server: &Server, arguments: &[String]) {
    let url = server.url();
    let mut all = vec![url.as_str()];
    all.extend(arguments.iter().map(String::as_str));
    for line in child::run_role("many_locks", &all) {
        println!("{line}");
    }
}

/// The role: holds many locks for some leases. The renewals need fewer script calls than the bound.
pub fn many_locks(arguments: &[&str]) {
    let url = arguments[0];
    let numbers: Vec<u64> = arguments[1..]
        .iter()
        .map(|number| number.parse().unwrap())
        .collect();
    let &[locks, lease, leases, calls] = &numbers[..] else {
        panic!("{arguments:?}")
    };
    let lease = Duration::from_millis(lease);
    let client = builder(url).watchdog_lease(lease).build().unwrap();
    let guards: Vec<LockGuard> = (0..locks)
        .map(|at| {
            client
                .reentrant_lock(&format!("lock:{at}"))
                .acquire()
                .unwrap()
        })
        .collect();
    let before = client.stats();
    let (start, cpu) = (Instant::now(), watchdog_seconds());
    while start.elapsed() < lease * u32::try_from(leases).unwrap() {
        thread::sleep(lease / 10);
        let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
        assert_eq!(lost, 0, "after {:?}", start.elapsed());
    }
    let cpu = watchdog_seconds() - cpu;
    let stats = client.stats();
    let (made, renewed) = (
        stats.renewal_calls - before.renewal_calls,
        stats.renewals - before.renewals,
    );
    child::send_line(format!("{made} calls, {renewed} renewals, {cpu:.3} s"));
    assert_eq!(
        (stats.lost, stats.renewals_failed, stats.renewals_unknown),
        (0, 0, 0)
    );
    assert!(renewed >= locks * leases, "{renewed} renewals");
    assert!(made < calls, "{made} script calls");
    if locks >= 10_000 {
        let cost = cpu / renewed as f64;
        let plain = plain_renewals(url, &guards, lease, renewed / locks) / renewed as f64;
        child::send_line(format!(
            "{:.2} times the cost of the requests",
            cost / plain
        ));
        assert!(cost < plain * 10.0, "{cost} s, and plainly {plain} s");
    }
    for guard in guards {
        guard.unlock().unwrap();
    }
}

/// Renews each of these locks `times` times by an own connection, in batches of the same size as
/// the watchdog's, and returns the processor time of that.
fn plain_renewals(url: &str, guards: &[LockGuard], lease: Duration, times: u64) -> f64 {
    let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
    let text = library_script("renew");
    let load = redis::cmd("SCRIPT").arg("LOAD").arg(text).clone();
    let script: String = load.query(&mut redis).unwrap();
    let names: Vec<&str> = guards.iter().map(LockGuard::name).collect();
    let mut owners = redis::pipe();
    for name in &names {
        owners.cmd("HKEYS").arg(name);
    }
    let owners: Vec<(String,)> = owners.query(&mut redis).unwrap();
    let millis = lease.as_millis().to_string();
    let before = seconds_of("thread-self");
    for _ in 0..times {
        let mut batches = redis::pipe();
        for (names, owners) in names.chunks(BATCH).zip(owners.chunks(BATCH)) {
            let call = batches.cmd("EVALSHA").arg(&script).arg(names.len());
            call.arg(names);
            for (owner,) in owners {
                call.arg(owner).arg(&millis).arg("1");
            }
        }
        let replies: Vec<Vec<i32>> = batches.query(&mut redis).unwrap();
        assert!(replies.iter().flatten().all(|renewed| *renewed == 1));
    }
    seconds_of("thread-self") - before
}

/// The processor time of the watchdog of this process so far.
fn watchdog_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let tasks = tasks.map(|task| format!("self/task/{}", task.unwrap().file_name().display()));
    let is_watchdog = |task: &String| {
        let name = std::fs::read_to_string(format!("/proc/{task}/comm")).unwrap();
        // The system cuts names to 15 bytes.
        name.trim_end() == "leasehold-watch"
    };
    let found: Vec<String> = tasks.filter(is_watchdog).collect();
    let [watchdog] = &found[..] else {
        panic!("{found:?}")
    };
    seconds_of(watchdog)
}

/// The processor time of a thread so far.
fn seconds_of(task: &str) -> f64 {
    let times = std::fs::read_to_string(format!("/proc/{task}/schedstat")).unwrap();
    let nanos: f64 = times.split_whitespace().next().unwrap().parse().unwrap();
    nanos / 1e9
}

fn hold(client: &LockClient, names: &[String]) -> Vec<LockGuard> {
    names
        .iter()
        .map(|name| client.reentrant_lock(name).acquire().unwrap())
        .collect()
}

#[test]
fn a_lock_with_a_problem_does_not_affect_the_others() {
    let server = Server::start();
    let client = client(&server.url());
    let names: Vec<String> = (0..300).map(|_| unique("many")).collect();
    let mut guards = hold(&client, &names);
    server.ask::<()>(redis::cmd("DEL").arg(&names[7]));
    server.ask::<()>(redis::cmd("SET").arg(&names[8]).arg("another type"));
    let taken = guards.swap_remove(8);
    let deleted = guards.swap_remove(7);
    let bound = LEASE.get() * 2 / 3 + SLIP.get();
    assert_eq!(deleted.lost().recv_timeout(bound), Ok(LostReason::Deleted));
    assert_eq!(taken.lost().recv_timeout(SLIP.get()), Ok(LostReason::Taken));
    throughout(LEASE.get() * 2, "the others", || {
        guards.iter().all(|guard| guard.check().is_ok())
    });
    assert_eq!(client.stats().lost, 2);
    let kept: String = server.ask(redis::cmd("GET").arg(&names[8]));
    assert_eq!(kept, "another type");
}

/// A renewal under way does not affect a hold that is unlocked meanwhile, nor the next hold.
#[test]
fn a_release_during_a_renewal_is_no_loss() {
    let server = Server::start();
    let lease = millis(30);
    let client = builder(&server.url())
        .watchdog_lease(lease)
        .build()
        .unwrap();
    let busy = client.reentrant_lock("busy");
    let end = Instant::now() + millis(1000);
    let mut times = 0_u64;
    while Instant::now() < end {
        busy.lock().unwrap();
        // Around the moment of the renewal.
        thread::sleep(lease / 2 + lease * u32::try_from(times % 7).unwrap() / 30);
        match busy.unlock() {
            Ok(()) => times += 1,
            // A machine that stalls for a whole lease does lose it.
            Err(Error::Lost {
                reason: LostReason::Expired,
                ..
            }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(
        times > 10 && client.stats().renewals > 0,
        "{:?}",
        client.stats()
    );
    let free: bool = server.ask::<u32>(&redis::cmd("DBSIZE")) == 0;
    assert!(free, "no renewal created it again");
}

/// A missing reply is no loss: the renewal is retried while the lease lasts.
#[test]
#[ignore = "soak"]
fn a_server_that_hangs_for_half_a_lease_loses_no_lock() {
    let server = Server::start();
    let lease = LEASE.get() * 4;
    let client = builder(&server.url())
        .watchdog_lease(lease)
        .build()
        .unwrap();
    let events = client.events();
    let guards = hold(&client, &[unique("half"), unique("half"), unique("half")]);
    let renewals = client.stats().renewals;
    // From shortly before the renewal on.
    thread::sleep(lease / 2);
    server.pause();
    thread::sleep(lease / 3);
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    server.resume();
    eventually("all to be renewed", || {
        client.stats().renewals >= renewals + 3
    });
    let stats = client.stats();
    assert!(stats.renewals_unknown >= 3, "{stats:?}");
    assert_eq!(stats.renewals_failed, 0, "Redis replied no error");
    assert_eq!(stats.lost, 0);
    throughout(lease, "all locks", || {
        guards.iter().all(|guard| guard.check().is_ok())
    });
    let failed = events.try_iter().find_map(|event| match event {
        LockEvent::RenewalFailed {
            lease_left, cause, ..
        } => Some((lease_left, cause)),
        _ => None,
    });
    let (left, cause) = failed.expect("an event for each failure");
    assert!(left > Duration::ZERO && left < lease / 2, "{left:?}");
    assert!(!cause.is_empty());
    eventually_some("the event of the recovery", || {
        (client.stats().reconnects > 0).then_some(())
    });
}

/// Only the local clock can notify the holder.
#[test]
#[ignore = "soak"]
fn a_server_that_hangs_for_long_is_detected_by_the_clock() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock("lock");
    let guard = lock.acquire().unwrap();
    let (renewed, fixed) = (guard.lost().clone(), unique("fixed"));
    let other = client.reentrant_lock(&fixed);
    let fixed = other
        .try_acquire(Duration::ZERO, Lease::fixed(LEASE.get()))
        .unwrap();
    let fixed = fixed.expect("it is free");
    server.pause();
    let start = Instant::now();
    let notified = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Notified by the watchdog, which may be in an attempt meanwhile.
            assert_eq!(renewed.recv_timeout(SOON.get()), Ok(LostReason::Expired));
            let took = start.elapsed();
            assert!(
                took <= LEASE.get() * 7 / 6 + SLIP.get(),
                "notified after {took:?}"
            );
            notified.store(true, Ordering::SeqCst);
        });
        eventually("check to know", || guard.check().is_err());
        let took = start.elapsed();
        assert!(took <= LEASE.get() + SLIP.get(), "detected after {took:?}");
        assert_eq!(guard.remaining(), Duration::ZERO);
    });
    assert!(notified.load(Ordering::SeqCst));
    eventually("the fixed lease to end", || fixed.is_lost());
    server.resume();
    // Nothing makes a lost hold valid again.
    throughout(LEASE.get(), "lost", || guard.is_lost() && fixed.is_lost());
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
    assert!(matches!(fixed.unlock(), Err(Error::Lost { .. })));
    let guard = lock.acquire().unwrap();
    throughout(LEASE.get() * 2, "the next hold", || guard.check().is_ok());
}

/// Its connections are cut, and it reconnects within the lease.
#[test]
#[ignore = "soak"]
fn cut_connections_lose_no_lock() {
    let server = Server::start();
    // Long enough to reconnect in the last third of the lease on a busy machine.
    let lease = LEASE.get() * 3;
    let client = builder(&server.url())
        .watchdog_lease(lease)
        .build()
        .unwrap();
    let guard = client.reentrant_lock("lock").acquire().unwrap();
    for _ in 0..2 {
        let renewals = client.stats().renewals;
        server.ask::<()>(
            redis::cmd("CLIENT")
                .arg("KILL")
                .arg("TYPE")
                .arg("normal")
                .arg("SKIPME")
                .arg("yes"),
        );
        eventually("a renewal", || client.stats().renewals > renewals);
        guard.check().unwrap();
    }
    guard.unlock().unwrap();
    assert_eq!(client.stats().lost, 0);
}

/// A waiter whose subscription is cut is woken nevertheless, and does not spin meanwhile.
#[test]
fn a_cut_subscription_loses_no_wake_up() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let held = ours.reentrant_lock("lock");
    held.lock_with(Lease::fixed(SOON.get() * 6)).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| theirs.reentrant_lock("lock").acquire()?.unlock());
        for _ in 0..3 {
            let woken = theirs.stats().wakeups_by_message;
            eventually("the waiter subscribes", || {
                theirs.stats().wakeups_by_message > woken || woken > 2
            });
            server.ask::<()>(redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub"));
            throughout(millis(200), "the waiter waits", || !waiter.is_finished());
        }
        let stats = theirs.stats();
        assert!(
            stats.wakeups_by_message + stats.wakeups_by_timeout < 40,
            "{stats:?}"
        );
        held.unlock().unwrap();
        waiter.join().unwrap().unwrap();
    });
}
