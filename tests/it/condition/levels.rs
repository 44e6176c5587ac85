//! The levels of a hold, and their guards, before, during and after a wait.

use super::Stage;
use crate::support::prelude::*;

#[test]
fn all_levels_are_released_and_restored() {
    let stage = Stage::<1>::new();
    let place = &stage.places[0];
    let outer = place.lock.acquire().unwrap();
    place.lock.lock().unwrap();
    let inner = place.lock.acquire().unwrap();
    thread::scope(|scope| {
        let (outer, inner, stage) = (&outer, &inner, &stage);
        scope.spawn(move || {
            stage.await_waiting(1);
            let guard = place.lock.acquire().unwrap();
            for waiting in [outer, inner] {
                assert_error!(waiting.check(), NotHeld);
                assert!(waiting.lost().is_empty() && !waiting.is_lost());
                assert_eq!(waiting.remaining(), Duration::ZERO);
            }
            place.condition.notify_one().unwrap();
            guard.unlock().unwrap();
        });
        assert!(place.condition.wait_for(SOON.get()).unwrap());
    });
    for guard in [&outer, &inner] {
        guard.check().unwrap();
        assert!(guard.remaining() > LEASE.get() / 2);
    }
    assert_eq!(place.lock.hold_count(), 3);
    eventually("the count in Redis", || {
        place.client.inspect(&stage.name).unwrap().hold_count == 3
    });
    place.lock.unlock().unwrap();
    // Guards have the others.
    assert_error!(place.lock.unlock(), NotHeld);
    inner.unlock().unwrap();
    outer.check().unwrap();
    assert!(!on_another_thread(|| place.lock.try_lock(Duration::ZERO, Lease::RENEWED)).unwrap());
    outer.unlock().unwrap();
    assert!(!place.lock.is_locked().unwrap());
}
