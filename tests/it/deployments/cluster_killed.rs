//! A primary is killed, and a slot moves, while threads work with many locks.

use super::of_cluster;
use super::workload::{Workload, client_for_failovers, run_for};
use crate::support::prelude::*;

const NAMES: usize = 64;

/// Eight threads of four clients use 64 locks.
#[test]
#[ignore = "soak"]
fn work_under_many_locks_goes_on() {
    let cluster = ClusterDeployment::start();
    let names: Vec<String> = (0..NAMES).map(|_| unique("job")).collect();
    let slots: Vec<u16> = names.iter().map(|name| cluster.slot_of(name)).collect();
    let clients: [LockClient; 4] =
        std::array::from_fn(|_| client_for_failovers(of_cluster(&cluster)));
    let work = Workload::over(names);
    work.run(&clients, || {
        work.await_progress();
        run_for(500);
        let dying = slots[0];
        let dead = cluster.kill_primary(dying).port();
        // Meanwhile the slot of another lock moves, while its lock is acquired and released.
        let lives = |slot: &&u16| cluster.primary_of(**slot).port() != dead;
        let moving = *slots.iter().find(lives).expect("in 64 names");
        let migration = cluster.begin_migration(moving, cluster.another_primary(moving));
        run_for(200);
        migration.move_keys();
        run_for(200);
        migration.end();
        cluster.await_failover(dying);
        within(SOON.get(), "work after the election", || {
            work.await_progress();
        });
        cluster.start_killed_again();
        run_for(1_000);
        work.await_progress();
    });
}

/// A held lock moves with its slot, and the waiting client gets it after the release.
#[test]
fn a_hold_moves_with_its_slot_and_its_waiter_gets_it() {
    for unlocked_early in [false, true] {
        let cluster = ClusterDeployment::start();
        let (holder, waiter) = (
            client_for_failovers(of_cluster(&cluster)),
            client_for_failovers(of_cluster(&cluster)),
        );
        let name = unique("moves");
        let slot = cluster.slot_of(&name);
        let lock = holder.fenced_lock(&name);
        // Longer than the test, so that no waiter is woken by its end.
        lock.lock_with(Lease::fixed(SOON.get() * 9)).unwrap();
        let kept = holder.reentrant_lock(&format!("{{{name}}}:kept"));
        kept.lock().unwrap();
        kept.lock().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let lock = waiter.fenced_lock(&name);
                let guard = lock.try_acquire(SOON.get() * 6, Lease::RENEWED).unwrap();
                guard.expect("it is unlocked").unlock().unwrap();
            });
            eventually("a client to wait", || waiter.stats().wakeups_by_message > 0);
            let to = cluster.another_primary(slot);
            let migration = cluster.begin_migration(slot, to);
            migration.move_keys();
            if unlocked_early {
                lock.unlock().unwrap();
            }
            migration.end();
            let before = holder.stats().renewals;
            eventually("a renewal where the slot is now", || {
                holder.stats().renewals > before
            });
            let is_there: bool = to.ask(redis::cmd("EXISTS").arg(kept.name()));
            assert!(is_there);
            if !unlocked_early {
                lock.unlock().unwrap();
            }
            eventually("the waiter to get it", || waiting.is_finished());
            waiting.join().unwrap();
        });
        assert_eq!(holder.stats().lost, 0);
        kept.unlock().unwrap();
        eventually("the count of the level that is left", || {
            holder.inspect(kept.name()).unwrap().hold_count == 1
        });
        kept.unlock().unwrap();
        assert!(!kept.is_locked().unwrap());
    }
}
