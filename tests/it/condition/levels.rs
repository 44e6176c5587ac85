//! The levels of a hold, and their guards, before, during and after a wait.

use super::{Place, Stage};
use crate::support::prelude::*;

/// A wait that ends by its time, with the lock.
fn wait(place: &Place) {
    assert!(!place.condition.wait_for(A_WHILE.get()).unwrap());
}

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

/// The renewed lease of the outer level is renewed again, the fixed one of the inner level ends.
#[test]
fn the_leases_are_those_of_the_levels() {
    let stage = Stage::<1>::new();
    let place = &stage.places[0];
    let fixed = |lease| place.lock.acquire_with(Lease::fixed(lease)).unwrap();
    let long = fixed(LEASE.get() * 60);
    wait(place);
    assert!(long.remaining() > LEASE.get() * 50);
    long.unlock().unwrap();
    let renewed = place.lock.acquire().unwrap();
    wait(place);
    throughout(LEASE.get() * 2, "it is renewed", || renewed.check().is_ok());
    renewed.unlock().unwrap();
    let short = fixed(LEASE.get());
    wait(place);
    let reason = short.lost().recv_timeout(LEASE.get() * 2);
    assert_eq!(reason, Ok(LostReason::Expired));
    assert_error!(short.unlock(), Lost);
}

#[test]
fn a_loss_after_a_wait_is_told_to_the_receivers_from_before() {
    let stage = Stage::<1>::new();
    let place = &stage.places[0];
    let [outer, inner] = [(); 2].map(|()| place.lock.acquire().unwrap());
    let lost = outer.lost().clone();
    for _ in 0..3 {
        wait(place);
    }
    assert!(lost.is_empty());
    place.client.force_unlock(&stage.name).unwrap();
    assert_eq!(lost.recv_timeout(SOON.get()), Ok(LostReason::Deleted));
    for guard in [inner, outer] {
        assert_error!(guard.check(), Lost);
        assert_error!(place.lock.lock(), Lost);
        assert_error!(guard.unlock(), Lost);
    }
    take_and_release(&place.lock);
}

#[test]
fn a_lost_lock_is_not_waited_for() {
    let stage = Stage::<1>::new();
    let place = &stage.places[0];
    for notify in [false, true] {
        let guard = place.lock.acquire().unwrap();
        place.lock.lock().unwrap();
        stage.server.run(&format!("DEL {}", stage.name));
        // The process does not know it yet.
        guard.check().unwrap();
        let result = match notify {
            true => place.condition.notify_one(),
            false => place.condition.wait(),
        };
        assert_error!(result, Lost);
        assert!(guard.is_lost());
        assert_error!(place.lock.unlock(), Lost);
        assert_error!(guard.unlock(), Lost);
        take_and_release(&place.lock);
    }
}
