//! A thread that unlocks gives the lock to the next thread of its client, without a request.

use super::{Clients, Stage};
use crate::support::prelude::*;

/// A thread of this client gives the lock to another one, which runs `then`. Returns its result,
/// and where the first thread would be notified of a loss.
fn hand_over<T: Send>(
    stage: &Stage,
    client: &Clients,
    then: impl Fn(LockGuard) -> T + Sync,
) -> (T, Subscription<LostReason>) {
    let (lock, other) = (stage.lock_of(client), stage.lock());
    let handed_over = || client.counted(|stats| stats.hand_overs);
    // A grant is handed over only soon after Redis has given it, which a busy machine may miss.
    eventually_some("a hand-over", || {
        let before = handed_over();
        let ((says, tasks), (goes, go)) = (bounded(2), bounded(1));
        let queues = || says.send(Task::current()).unwrap();
        let give = || {
            queues();
            let guard = lock.acquire().unwrap();
            let lost = guard.lost();
            guard.unlock().unwrap();
            assert_matches!(lock.unlock(), Err(Error::NotHeld { .. }));
            assert_eq!(lock.hold_count(), 0);
            goes.send(()).unwrap();
            lost
        };
        let get = || {
            queues();
            let guard = lock.acquire().unwrap();
            (handed_over() > before).then(|| {
                go.recv().unwrap();
                then(guard)
            })
        };
        let is_waiting = || {
            let task: Task = tasks.recv().unwrap();
            eventually("it to wait", || task.is_asleep());
        };
        thread::scope(|scope| {
            let held = other.acquire().unwrap();
            // A turn of a fair lock is for the threads that wait when it begins. This one is first,
            // so the other two wait when the next turn begins.
            let first = scope.spawn(|| {
                queues();
                lock.acquire().unwrap().unlock().unwrap();
            });
            is_waiting();
            let giver = scope.spawn(give);
            is_waiting();
            let getter = scope.spawn(get);
            is_waiting();
            held.unlock().unwrap();
            first.join().unwrap();
            let lost = giver.join().unwrap();
            getter.join().unwrap().map(|result| (result, lost))
        })
    })
}

/// The thread that gave it away cannot release it.
pub fn a_handed_over_lock_is_held(stage: &Stage) {
    let client = stage.client();
    let (lock, other) = (stage.lock_of(&client), stage.lock());
    let ((), lost) = hand_over(stage, &client, |guard| {
        guard.check().unwrap();
        guard.confirm().unwrap();
        assert_eq!((lock.hold_count(), stage.count()), (1, 1));
        assert!(!other.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
        lock.lock().unwrap();
        guard.unlock().unwrap();
        lock.unlock().unwrap();
        assert_eq!((lock.hold_count(), stage.count()), (0, 0));
    });
    assert!(lost.recv().is_err(), "nothing was lost");
    pair(&*other);
}

pub fn a_handed_over_lock_is_renewed(stage: &Stage) {
    hand_over(stage, &stage.client(), |guard| {
        throughout(LEASE.get() * 2, "held, and renewed", || {
            guard.check().is_ok() && stage.count() == 1
        });
        guard.unlock().unwrap();
    });
    assert_eq!(stage.count(), 0);
}

/// The thread that holds it is notified, and the one that gave it away is not.
pub fn the_loss_of_a_handed_over_lock_is_reported(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    let ((), lost) = hand_over(stage, &client, |guard| {
        stage.delete();
        let bound = LEASE.get() * 2 / 3 + SLIP.get();
        let loss = within(bound, "the notification", || guard.lost().recv());
        assert_eq!(loss, Ok(LostReason::Deleted));
        assert_eq!(lock.hold_count(), 0);
        for result in [guard.check(), guard.unlock()] {
            assert_lost(&result, LostReason::Deleted);
        }
    });
    assert!(lost.recv().is_err(), "it had no lock to lose");
    pair(&*lock);
}
