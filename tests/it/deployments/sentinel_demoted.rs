//! The master becomes a replica while clients hold its locks and wait for them.

use super::{connections, of_sentinel};
use crate::support::prelude::*;

/// Waits until the time to live rises, which shows a renewal.
fn await_renewal(server: &Server, name: &str) {
    let mut last = server.time_to_live(name);
    assert!(last > 0, "the hold was lost in the failover");
    eventually("a renewal at the new master", || {
        let now = server.time_to_live(name);
        now > std::mem::replace(&mut last, now)
    });
}

/// During the failover one lock is renewed, and a waiter waits for another one with a fixed lease.
fn demote(deployment: &SentinelDeployment, demotion: impl FnOnce()) {
    let client = || {
        // The lease of the hold outlasts the failover.
        let builder = of_sentinel(deployment).watchdog_lease(millis(12_000));
        builder.command_timeout(millis(400)).build().unwrap()
    };
    let (holder, waiter) = (client(), client());
    let (renewed, waited) = (unique("renewed"), unique("waited"));
    let kept = holder.reentrant_lock(&renewed);
    kept.lock().unwrap();
    kept.lock().unwrap();
    let handed_over = holder.reentrant_lock(&waited);
    handed_over.lock_with(Lease::fixed(SOON.get() * 9)).unwrap();
    let old = deployment.master();
    // The replicas have the hold that must survive.
    let wait = redis::cmd("WAIT").arg(2).arg(1_000).clone();
    old.ask::<u32>(&wait);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let lock = waiter.reentrant_lock(&waited);
            assert!(lock.try_lock(SOON.get() * 6, Lease::RENEWED).unwrap());
            lock.unlock().unwrap();
        });
        eventually("a client to wait", || waiter.stats().wakeups_by_message > 0);
        demotion();
        let new = deployment.master();
        assert_ne!(new.port(), old.port());
        await_renewal(new, &renewed);
        eventually("no client to use the old master", || connections(old) == 0);
        eventually("the waiter to listen at the new one", || {
            in_redis::listeners(new, &waited) == 1
        });
        handed_over.unlock().unwrap();
        eventually("the waiter to be woken", || waiting.is_finished());
        waiting.join().unwrap();
    });
    assert_eq!((holder.stats().lost, waiter.stats().lost), (0, 0));
    assert_eq!(kept.hold_count(), 2);
    for _ in 0..2 {
        kept.unlock().unwrap();
    }
    assert!(!kept.is_locked().unwrap());
}

#[test]
#[ignore = "soak"]
fn an_operator_demotes_the_master() {
    let deployment = SentinelDeployment::start();
    demote(&deployment, || {
        deployment.fail_over();
    });
}

#[test]
#[ignore = "soak"]
fn a_paused_master_resumes_as_a_replica() {
    let deployment = SentinelDeployment::start();
    demote(&deployment, || {
        let old = deployment.pause_master();
        deployment.await_new_master(old);
        old.resume();
        deployment.await_calm();
    });
}
