//! What an operator sees and does.

use super::Stage;
use crate::support::prelude::*;

pub fn inspect_reports_the_state_in_redis(stage: &Stage) {
    let (client, operator) = (stage.client(), stage.client());
    let status = operator.inspect(stage.name()).unwrap();
    assert_eq!(
        (status.owner, status.hold_count, status.remaining),
        (None, 0, None)
    );
    let lock = stage.lock_of(&client);
    lock.lock().unwrap();
    let status = operator.inspect(stage.name()).unwrap();
    let owner = status.owner.expect("it is held");
    assert_eq!(owner.trim_end_matches(":write"), stage.holders()[0].0);
    assert_eq!(status.hold_count, 1);
    lock.lock().unwrap();
    eventually("the count of both levels", || {
        operator.inspect(stage.name()).unwrap().hold_count == 2
    });
    let left = status.remaining.expect("it expires");
    assert!(left > Duration::ZERO && left <= LEASE.get(), "{left:?}");
    lock.unlock().unwrap();
    lock.unlock().unwrap();
}

pub fn force_unlock_releases_the_lock_and_wakes_waiters(stage: &Stage) {
    let (holder, waiter, operator) = (stage.lock(), stage.lock(), stage.client());
    holder.lock_with(long()).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            waiter.lock().unwrap();
            waiter.unlock().unwrap();
        });
        throughout(A_WHILE.get(), "the waiter waits", || !waiting.is_finished());
        for name in stage.names() {
            assert!(operator.force_unlock(name).unwrap());
        }
        within(millis(500), "the wake-up", || waiting.join().unwrap());
    });
    assert!(
        !operator.force_unlock(stage.name()).unwrap(),
        "no client holds it"
    );
    assert_matches!(holder.unlock(), Err(Error::Lost { .. }));
}

/// Its own client knows at once, another client at its next renewal.
pub fn the_holder_is_notified_of_a_force_unlock(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    for (operator, bound) in [
        (client.clone(), SLIP.get()),
        (stage.client(), LEASE.get() * 2 / 3 + SLIP.get()),
    ] {
        let guard = lock.acquire().unwrap();
        assert!(operator.force_unlock(stage.name()).unwrap());
        let loss = within(bound, "the notification", || guard.lost().recv());
        assert_eq!(loss, Ok(LostReason::Deleted));
    }
}

pub fn stats_count_all_operations(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    for _ in 0..3 {
        lock.lock().unwrap();
        lock.lock().unwrap();
        lock.unlock().unwrap();
        lock.unlock().unwrap();
    }
    lock.lock().unwrap();
    stage.delete();
    assert!(lock.unlock().is_err());
    let stats = client.stats();
    let parts = stage.parts();
    assert_eq!(
        (stats.acquisitions, stats.reentries),
        (4 * parts, 3 * parts)
    );
    assert_eq!((stats.releases, stats.lost), (3 * parts, parts));
    assert_eq!(client.clone().stats(), stats, "clones share everything");
    assert_eq!(stage.client().stats().acquisitions, 0, "clients do not");
}

pub fn a_loss_is_an_event(stage: &Stage) {
    let client = stage.client();
    let events = [client.events(), client.events()];
    let lock = stage.lock_of(&client);
    pair(&*lock);
    let guard = lock.acquire().unwrap();
    stage.delete();
    eventually("the loss to be known", || guard.is_lost());
    drop(guard);
    for events in events {
        // The holder may know a moment before the event is sent.
        let mut lost = Vec::new();
        eventually("the event", || {
            lost.extend(lost_events(&events));
            lost.len() >= stage.names().len()
        });
        lost.sort_by(|one, other| one.0.cmp(&other.0));
        let of_all = stage.names().iter().cloned();
        let deleted = of_all.map(|name| (name, LostReason::Deleted));
        assert!(deleted.eq(lost.drain(..)));
        assert!(lost_events(&events).is_empty(), "once");
    }
}

/// The event of a renewed hold is sent even if the server keeps the lease longer than the client.
pub fn a_late_release_is_an_event(stage: &Stage) {
    let client = stage.client();
    let events = client.events();
    let lock = stage.lock_of(&client);
    lock.lock_with(Lease::fixed(A_WHILE.get())).unwrap();
    // A server with a slow clock keeps the lease longer.
    let persist = redis::cmd("PEXPIRE")
        .arg(stage.key())
        .arg(60_000)
        .to_owned();
    stage.run_command(&persist);
    eventually("the end of the lease", || !lock.is_held_by_current_thread());
    assert_lost(&lock.unlock(), LostReason::Expired);
    assert_eq!(stage.count(), 0, "the lease was released");
    let late = events.try_iter().any(
        |event| matches!(event, LockEvent::ReleasedLate { lock, .. } if *lock == *stage.name()),
    );
    assert!(late);
}
