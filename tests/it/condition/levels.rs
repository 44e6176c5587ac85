//! The levels of a hold, and their guards, before, during and after a wait.

use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease, LostReason};

use super::{Place, await_waiting};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SOON, eventually, throughout};
use crate::support::{client, on_another_thread, unique};

/// A wait that ends by its time, with the lock.
fn wait(place: &Place) {
    assert!(!place.condition.wait_for(A_WHILE.get()).unwrap());
}

#[test]
fn all_levels_are_released_and_restored() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    let outer = place.lock.acquire().unwrap();
    place.lock.lock().unwrap();
    let inner = place.lock.acquire().unwrap();
    thread::scope(|scope| {
        let (outer, inner, server, place, name) = (&outer, &inner, &server, &place, &name);
        scope.spawn(move || {
            await_waiting(server, name, 1);
            let guard = place.lock.acquire().unwrap();
            for waiting in [outer, inner] {
                assert!(matches!(waiting.check(), Err(Error::NotHeld { .. })));
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
    let count = || client.inspect(&name).unwrap().hold_count;
    eventually("the count in Redis", || count() == 3);
    place.lock.unlock().unwrap();
    let result = place.lock.unlock();
    assert!(
        matches!(result, Err(Error::NotHeld { .. })),
        "guards have the others"
    );
    inner.unlock().unwrap();
    outer.check().unwrap();
    assert!(!on_another_thread(|| place.lock.try_lock(Duration::ZERO, Lease::RENEWED)).unwrap());
    outer.unlock().unwrap();
    assert!(!place.lock.is_locked().unwrap());
}

/// The renewed lease of the outer level is renewed again, the fixed one of the inner level ends.
#[test]
fn the_leases_are_those_of_the_levels() {
    let server = Server::start();
    let client = client(&server.url());
    let place = Place::of(&client, &unique("condition"));
    let long = place
        .lock
        .acquire_with(Lease::fixed(LEASE.get() * 60))
        .unwrap();
    wait(&place);
    assert!(long.remaining() > LEASE.get() * 50);
    long.unlock().unwrap();

    let renewed = place.lock.acquire().unwrap();
    wait(&place);
    throughout(LEASE.get() * 2, "it is renewed", || renewed.check().is_ok());
    renewed.unlock().unwrap();

    let fixed = place.lock.acquire_with(Lease::fixed(LEASE.get())).unwrap();
    wait(&place);
    let reason = fixed.lost().recv_timeout(LEASE.get() * 2);
    assert_eq!(reason, Ok(LostReason::Expired));
    assert!(matches!(fixed.unlock(), Err(Error::Lost { .. })));
}

#[test]
fn a_loss_after_a_wait_is_told_to_the_receivers_from_before() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    let outer = place.lock.acquire().unwrap();
    let inner = place.lock.acquire().unwrap();
    let lost = outer.lost().clone();
    for _ in 0..3 {
        wait(&place);
    }
    assert!(lost.is_empty());
    client.force_unlock(&name).unwrap();
    assert_eq!(lost.recv_timeout(SOON.get()), Ok(LostReason::Deleted));
    for guard in [inner, outer] {
        assert!(matches!(guard.check(), Err(Error::Lost { .. })));
        assert!(matches!(place.lock.lock(), Err(Error::Lost { .. })));
        assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
    }
    place.lock.acquire().unwrap().unlock().unwrap();
}

#[test]
fn a_lost_lock_is_not_waited_for() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    for notify in [false, true] {
        let guard = place.lock.acquire().unwrap();
        place.lock.lock().unwrap();
        server.ask::<()>(redis::cmd("DEL").arg(&name));
        // The process does not know it yet.
        guard.check().unwrap();
        let result = match notify {
            true => place.condition.notify_one(),
            false => place.condition.wait(),
        };
        assert!(matches!(result, Err(Error::Lost { .. })), "{result:?}");
        assert!(guard.is_lost());
        assert!(matches!(place.lock.unlock(), Err(Error::Lost { .. })));
        assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
        place.lock.acquire().unwrap().unlock().unwrap();
    }
}

#[test]
fn a_lock_that_is_unlocked_after_a_time_is_free_during_a_wait() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    let outer = place.lock.acquire().unwrap();
    let inner = place.lock.acquire().unwrap();
    inner.unlock_after(SOON.get() * 6).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            await_waiting(&server, &name, 1);
            place.notify_one();
        });
        assert!(place.condition.wait_for(SOON.get()).unwrap());
    });
    outer.unlock().unwrap();
    assert!(place.lock.is_locked().unwrap(), "kept after the last level");
}
