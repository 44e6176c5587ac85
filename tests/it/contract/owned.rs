//! Holds that belong to a guard and to no thread.

use super::Stage;
use crate::support::prelude::*;

fn owned(lock: &dyn Lock) -> OwnedGuard {
    lock.acquire_owned(Lease::RENEWED).unwrap()
}

/// Also after the end of the thread that acquired it, which does not end the renewals.
pub fn every_thread_can_use_an_owned_guard(stage: &Stage) {
    let lock = stage.lock();
    let guard = on_another_thread(|| owned(&*lock));
    assert_eq!(guard.name(), stage.whole_name());
    assert_eq!((lock.hold_count(), stage.count()), (0, 1));
    assert_matches!(
        lock.unlock(),
        Err(Error::NotHeld {
            by_guard: false,
            ..
        })
    );
    throughout(LEASE.get() * 2, "held", || {
        guard.check().is_ok() && stage.count() == 1
    });
    let long = LEASE.get() * 20;
    on_another_thread(|| {
        guard.confirm().unwrap();
        guard.extend(long).unwrap();
    });
    assert!(guard.remaining() > long / 2 && !guard.is_lost());
    on_another_thread(move || guard.unlock().unwrap());
    assert_eq!(stage.count(), 0);
}

/// Like two threads. The thread that made the guard is no exception, and neither is another guard.
pub fn a_guard_and_a_thread_exclude_each_other(stage: &Stage) {
    let locks = [stage.lock(), stage.lock()];
    let at_once = |lock: &Arc<dyn Lock>| {
        let guard = lock.try_acquire_owned(Duration::ZERO, Lease::RENEWED);
        guard.unwrap()
    };
    let guard = owned(&*locks[0]);
    for lock in &locks {
        assert!(at_once(lock).is_none());
        assert!(!lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    }
    guard.unlock().unwrap();
    for lock in &locks {
        lock.lock().unwrap();
        assert!(locks.iter().all(|lock| at_once(lock).is_none()));
        lock.unlock().unwrap();
        at_once(lock).expect("it is free").unlock().unwrap();
    }
    assert_eq!(stage.count(), 0);
}

pub fn a_dropped_guard_is_released_in_the_background(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    drop(owned(&*lock));
    within(SLIP.get() * 2, "the release", || stage.await_count(0));
    assert_eq!(client.counted(|stats| stats.held), 0);
    // So is one that the next thread of the client may have got first.
    drop(owned(&*lock));
    pair(&*lock);
    within(SLIP.get() * 2, "the release", || stage.await_count(0));
    assert_eq!(client.counted(|stats| stats.lost), 0);
}

/// Threads and guards, of the client and of another one.
pub fn a_waiter_gets_the_lock_of_a_dropped_guard(stage: &Stage) {
    const WAYS: [fn(&dyn Lock); 2] = [
        |lock| pair(lock),
        |lock| {
            let guard = lock.try_acquire_owned(SOON.get(), Lease::RENEWED);
            guard.unwrap().expect("it was dropped").unlock().unwrap();
        },
    ];
    let locks = [stage.lock(), stage.lock()];
    for (waiter, way) in locks.iter().flat_map(|lock| WAYS.map(|way| (lock, way))) {
        let guard = owned(&*locks[0]);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| way(&**waiter));
            throughout(A_WHILE.get(), "it waits", || !waiting.is_finished());
            within(SOON.get() / 2, "the hand-over", || {
                drop(guard);
                waiting.join().unwrap();
            });
        });
        stage.await_count(0);
    }
}

pub fn the_loss_of_an_owned_hold_is_reported(stage: &Stage) {
    let lock = stage.lock();
    let guard = owned(&*lock);
    let lost = guard.lost();
    stage.delete();
    assert_eq!(lost.recv_timeout(SOON.get()), Ok(LostReason::Deleted));
    assert_lost(&guard.check(), LostReason::Deleted);
    assert!(guard.is_lost() && guard.remaining().is_zero());
    // The next owner need not wait for this guard, which does not touch its hold.
    let next = owned(&*lock);
    assert_lost(&guard.unlock(), LostReason::Deleted);
    next.confirm().unwrap();
    stage.delete();
    eventually("the loss to be known", || next.is_lost());
    drop(next);
    pair(&*lock);
}

pub fn an_owned_lock_can_be_kept_in_redis_after_its_unlock(stage: &Stage) {
    let lock = stage.lock();
    let guard = lock.acquire_owned(long()).unwrap();
    let start = Instant::now();
    guard.unlock_after(A_WHILE.get() * 2).unwrap();
    assert!(lock.try_acquire_now().unwrap().is_none());
    owned(&*lock).unlock().unwrap();
    assert!(start.elapsed() >= A_WHILE.get() * 2 - millis(20));
}

/// Several names, and several servers, have no token: the guard then ends as by a drop.
pub fn a_token_gives_an_owned_hold_to_another_client(stage: &Stage) {
    let (ours, theirs) = (stage.client(), stage.client());
    let token = owned(&*stage.lock_of(&ours)).into_token();
    if stage.parts() > 1 || ours.0.len() > 1 {
        assert_error!(token, Config);
        stage.await_count(0);
        return;
    }
    let token = token.unwrap();
    assert_eq!((stage.count(), ours.counted(|stats| stats.held)), (1, 0));
    let guard = theirs.adopt(&token).unwrap();
    assert_eq!((guard.name(), stage.count()), (stage.name(), 1));
    for client in [&ours, &theirs] {
        assert_lost(&client.adopt(&token), LostReason::TokenSpent);
    }
    throughout(LEASE.get() * 2, "renewed", || {
        guard.check().is_ok() && stage.count() == 1
    });
    guard.confirm().unwrap();
    guard.unlock().unwrap();
    assert_eq!(stage.count(), 0);
    assert_lost(&theirs.adopt(&token), LostReason::TokenSpent);
    pair(&*stage.lock_of(&ours));
    assert_eq!(theirs.counted(|stats| stats.lost), 0);
}
