//! Time that a test moves.

use tracing::Level;

use super::{LEASE, MINUTE, start, waiting};
use crate::support::prelude::*;

#[test]
fn a_wait_ends_when_the_clock_is_advanced() {
    let redis = start();
    let (one, other) = (redis.client().unwrap(), redis.client().unwrap());
    let _guard = one.reentrant_lock("job").acquire().unwrap();
    let began = Instant::now();
    // Behind another client, and behind a thread of the same client.
    for client in [other, one] {
        let call = waiting(&redis, move || {
            client
                .reentrant_lock("job")
                .try_lock(10 * MINUTE, Lease::RENEWED)
        });
        // Real time passes, too.
        redis.advance(9 * MINUTE);
        assert!(!call.is_finished());
        redis.advance(MINUTE);
        assert!(!call.join().unwrap().unwrap());
    }
    assert!(began.elapsed() < MINUTE, "{:?}", began.elapsed());
}

/// A call of another client, and one that waits for a thread of its own client.
#[test]
fn a_long_wait_is_logged_once_with_the_holder() {
    logs::keep();
    let redis = start();
    let (one, other) = (redis.client().unwrap(), redis.client().unwrap());
    let name = unique("long wait");
    let guard = one.reentrant_lock(&name).acquire().unwrap();
    let owner = one.inspect(&name).unwrap().owner.unwrap();
    let calls = [&other, &one].map(|client| {
        let lock = client.reentrant_lock(&name);
        waiting(&redis, move || lock.acquire().and_then(LockGuard::unlock))
    });
    assert!(redis.await_waiting(2));
    let logged = || logs::lines_about(&name, |level| level == Level::INFO);
    redis.advance(Duration::from_secs(9));
    assert_eq!(logged(), [""; 0]);
    redis.advance(Duration::from_secs(2));
    eventually("both lines", || logged().len() == 2);
    redis.advance(MINUTE);
    let lines = logged();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("still waiting")));
    let with_holder = lines.iter().filter(|line| line.contains(&owner));
    assert_eq!(with_holder.count(), 1, "{lines:?}");
    guard.unlock().unwrap();
    for call in calls {
        call.join().unwrap().unwrap();
    }
}

#[test]
fn a_pause_of_the_process_ends_leases() {
    let redis = start();
    let client = redis.client().unwrap();
    let events = client.events();
    let guard = client.reentrant_lock("job").acquire().unwrap();
    redis.pause_process(LEASE / 2);
    guard.check().unwrap();
    redis.pause_process(LEASE);
    assert_eq!(guard.lost().try_recv(), Ok(LostReason::Expired));
    assert_lost(&guard.check(), LostReason::Expired);
    assert_eq!(client.stats().lost, 1);
    assert!(!events.is_empty());
    assert_lost(&guard.unlock(), LostReason::Expired);
    let again = client.reentrant_lock("job").acquire().unwrap();
    again.check().unwrap();
}

/// Beside one thread that skips minutes, and beside two.
#[test]
fn threads_that_work_keep_their_renewed_locks_while_time_is_skipped() {
    for testers in [1, 2] {
        let servers = [start(), start(), start()];
        let clients = servers.each_ref().map(|one| one.client().unwrap());
        let (one, other) = (&clients[0], servers[0].client().unwrap());
        let held = one.reentrant_lock("held").acquire().unwrap();
        let locks: [Box<dyn Lock>; 6] = [
            Box::new(one.reentrant_lock("a")),
            Box::new(one.reentrant_lock("b")),
            Box::new(other.reentrant_lock("b")),
            Box::new(one.fair_lock("fair")),
            Box::new(one.read_write_lock("shared").read()),
            Box::new(RedLock::new(&clients, "red")),
        ];
        let is_over = AtomicBool::new(false);
        let work = |lock: Box<dyn Lock>| {
            let mut rounds = 0;
            while !is_over.load(Ordering::Relaxed) {
                let guard = lock.acquire().unwrap();
                guard.check().unwrap();
                guard.unlock().unwrap();
                rounds += 1;
            }
            rounds
        };
        let skip = || {
            for server in servers.iter().cycle().take(20) {
                server.advance(MINUTE);
            }
        };
        thread::scope(|scope| {
            let workers = locks.map(|lock| scope.spawn(|| work(lock)));
            let testers: Vec<_> = (0..testers).map(|_| scope.spawn(skip)).collect();
            testers.into_iter().for_each(|one| one.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
            for worker in workers {
                assert!(worker.join().unwrap() > 0);
            }
        });
        held.check().unwrap();
        held.unlock().unwrap();
    }
}

/// The skipped time counts for the limits of a hold.
#[test]
fn a_hold_ends_at_its_limits_when_the_clock_is_advanced() {
    let redis = start();
    let hour = 60 * MINUTE;
    let lock = redis.client().unwrap().reentrant_lock("job");
    let limited = lock.acquire_with(Lease::held_at_most(hour)).unwrap();
    for _ in 0..58 {
        redis.advance(MINUTE);
        limited.check().unwrap();
    }
    redis.advance(2 * MINUTE);
    assert_error!(limited.check(), Lost);
    drop(limited);

    let guard = lock.acquire_with(Lease::fixed(hour)).unwrap();
    redis.advance(20 * MINUTE);
    guard.unlock_at_least(hour).unwrap();
    redis.advance(39 * MINUTE);
    assert!(lock.is_locked().unwrap());
    redis.advance(MINUTE);
    assert!(!lock.is_locked().unwrap());
}
