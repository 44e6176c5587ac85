//! A holder that lost its lock is notified, and its later calls change nothing.

use super::Stage;
use crate::support::prelude::*;

const OTHER_OWNER: &str = "b4a9e8a4-0000-4000-8000-000000000000:7";

/// Asserts that the holder is notified in both ways, in time, after `loss` happened to the lock.
fn is_notified(stage: &Stage, loss: impl FnOnce(), expected: LostReason) {
    let lock = stage.lock();
    let guard = lock.acquire().unwrap();
    guard.check().unwrap();
    let lost = guard.lost();
    let others = [lost.clone(), guard.lost()];
    assert!(lost.is_empty());
    let start = Instant::now();
    loss();
    let received = lost.recv_timeout(SOON.get());
    let took = start.elapsed();
    assert_eq!(received, Ok(expected));
    assert!(
        took <= LEASE.get() * 2 / 3 + SLIP.get(),
        "notified after {took:?}"
    );
    assert_lost(&guard.check(), expected);
    assert!(guard.is_lost());
    assert_eq!((lock.hold_count(), guard.remaining()), (0, Duration::ZERO));
    assert!(!lock.is_held_by_current_thread());
    assert!(lost.recv().is_err(), "one message, then disconnected");
    for other in others.into_iter().chain([lost.clone(), guard.lost()]) {
        assert_eq!(other.recv_timeout(SOON.get()), Ok(expected));
        assert!(other.recv().is_err(), "one message, then disconnected");
    }
    assert_lost(&guard.unlock(), expected);
    let later = lost.clone();
    assert!(lost.recv().is_err(), "a clone has its own message");
    assert_eq!(later.recv(), Ok(expected));
}

/// Each of several receivers can tell the end of a hold from its loss, also from one that only the
/// unlock finds.
pub fn every_receiver_tells_the_end_of_a_hold_from_its_loss(stage: &Stage) {
    let lock = stage.lock();
    for is_lost in [false, true] {
        let guard = lock.acquire().unwrap();
        let first = guard.lost();
        let receivers = [first.clone(), guard.lost(), first];
        if is_lost {
            stage.delete();
        }
        assert_eq!(guard.unlock().is_err(), is_lost);
        for receiver in receivers {
            let expected = is_lost.then_some(LostReason::Deleted);
            assert_eq!(receiver.recv().ok(), expected);
            assert!(receiver.recv().is_err(), "disconnected");
        }
    }
}

pub fn the_loss_of_a_deleted_lock_is_reported(stage: &Stage) {
    is_notified(stage, || stage.delete(), LostReason::Deleted);
    assert_eq!(stage.count(), 0);
}

pub fn the_loss_to_another_owner_is_reported(stage: &Stage) {
    let lease = SOON.get();
    is_notified(
        stage,
        || stage.take_over(OTHER_OWNER, lease),
        LostReason::Taken,
    );
    assert_eq!(stage.holders(), [(OTHER_OWNER.to_owned(), 1)]);
}

pub fn the_loss_to_a_key_of_another_type_is_reported(stage: &Stage) {
    let replace = || stage.run_command(redis::cmd("SET").arg(stage.key()).arg("x"));
    is_notified(stage, replace, LostReason::Taken);
    let kept: String = redis::cmd("GET")
        .arg(stage.key())
        .query(&mut stage.redis())
        .expect("the value of another program");
    assert_eq!(kept, "x");
}

/// The thread cannot acquire the lock again while other code of it relies on the lost hold.
pub fn a_lost_lock_must_be_unlocked_before_it_is_acquired_again(stage: &Stage) {
    let lock = stage.lock();
    lock.lock().unwrap();
    lock.lock().unwrap();
    stage.delete();
    eventually("the loss to be known", || lock.hold_count() == 0);
    for _ in 0..2 {
        assert_lost(&lock.lock(), LostReason::Deleted);
        let attempt = lock.try_lock(Duration::ZERO, Lease::RENEWED);
        assert_lost(&attempt.map(drop), LostReason::Deleted);
        // Once for each level.
        assert_lost(&lock.unlock(), LostReason::Deleted);
    }
    assert_matches!(lock.unlock(), Err(Error::NotHeld { .. }));

    lock.lock().unwrap();
    assert_eq!((lock.hold_count(), stage.count()), (1, 1));
    lock.unlock().unwrap();
}

pub fn an_unlock_detects_the_loss(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    lock.lock().unwrap();
    stage.delete();
    assert_lost(&lock.unlock(), LostReason::Deleted);
    lock.lock().unwrap();
    stage.take_over(OTHER_OWNER, SOON.get());
    assert_lost(&lock.unlock(), LostReason::Taken);
    assert_eq!(stage.holders(), [(OTHER_OWNER.to_owned(), 1)]);
    assert_eq!(client.counted(|stats| stats.lost), 2 * stage.parts());
}

/// The local threads that wait for a lost hold do not depend on its holder.
pub fn the_next_local_thread_gets_a_lost_lock(stage: &Stage) {
    let lock = stage.lock();
    lock.lock().unwrap();
    let (started, start) = bounded(1);
    thread::scope(|scope| {
        let next = scope.spawn(|| {
            started.send(()).unwrap();
            // With a deadline, so that a ticket that never comes is a failure and not a hang.
            assert!(lock.try_lock(SOON.get(), Lease::RENEWED).unwrap());
            assert_eq!(stage.count(), 1);
            lock.unlock().unwrap();
        });
        start.recv().unwrap();
        stage.delete();
        eventually("the next thread to have it", || next.is_finished());
        next.join().unwrap();
    });
    assert_lost(&lock.unlock(), LostReason::Deleted);
    on_another_thread(|| lock.acquire().unwrap().unlock()).unwrap();
}

/// Calls of a thread that lost its lock never change the next hold.
pub fn a_lost_hold_does_not_affect_the_next(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    let guard = lock.acquire().unwrap();
    stage.delete();
    let other = stage.lock();
    other.lock().unwrap();
    eventually("the loss to be known", || guard.is_lost());
    let held = stage.holders();
    assert_lost(&guard.extend(SOON.get()), guard.lost().recv().unwrap());
    drop(guard);
    throughout(LEASE.get(), "the next hold", || stage.holders() == held);
    other.unlock().unwrap();
}
