//! Multi-locks: several locks are acquired as one, all of them or none.

mod arguments;
mod cluster;
mod hand_over;
mod line;
mod servers;

use leasehold::Result;

use crate::support::prelude::*;

#[test]
fn it_is_held_only_if_all_parts_are_held() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let lock = ours.multi_lock(["c", "a", "b"]);
    assert_eq!(lock.name(), "a, b, c");
    for taken in ["a", "b", "c"] {
        let obstacle = theirs.reentrant_lock(taken);
        obstacle.lock_with(long()).unwrap();
        for wait in [Duration::ZERO, A_WHILE.get()] {
            assert!(!lock.try_lock(wait, Lease::RENEWED).unwrap());
            assert_eq!(server.size(), 1, "only {taken}");
        }
        assert!(lock.is_locked().unwrap() && lock.hold_count() == 0);
        obstacle.unlock().unwrap();
        assert!(!lock.is_locked().unwrap());

        lock.lock().unwrap();
        assert!(ours.reentrant_lock(taken).is_held_by_current_thread());
        assert!(!obstacle.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
        lock.unlock().unwrap();
        assert_eq!(server.size(), 0);
    }
}

#[test]
fn the_loss_of_any_part_is_reported() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.multi_lock(["a", "b", "c"]);
    for lost in ["a", "b", "c"] {
        let guard = lock.acquire().unwrap();
        let receiver = guard.lost();
        assert!(receiver.is_empty());
        server.delete(lost);
        let loss = receiver.recv_timeout(SOON.get());
        assert_eq!(loss, Ok(LostReason::Deleted));
        assert!(receiver.recv().is_err(), "once");
        assert!(guard.is_lost() && guard.remaining() == Duration::ZERO);
        assert_eq!(lock.hold_count(), 0);
        let is_named =
            |result: Result<()>| matches!(result, Err(Error::Lost { lock, .. }) if lock == lost);
        assert!(is_named(guard.check()));
        assert!(is_named(guard.extend(LEASE.get())));
        assert!(is_named(guard.unlock()));
        assert_eq!(server.size(), 0, "the others");
    }
}

/// The counts are those of the parts, whichever lock acquired them.
#[test]
fn levels_are_those_of_the_parts() {
    let server = Server::start();
    let client = client(&server.url());
    let (both, only) = (client.multi_lock(["a", "b"]), client.reentrant_lock("b"));
    only.lock().unwrap();
    assert_eq!((both.hold_count(), only.hold_count()), (0, 1));
    assert_matches!(both.unlock(), Err(Error::NotHeld { lock, .. }) if lock == "a, b");
    assert_eq!(only.hold_count(), 1, "it was not this lock that took it");

    both.lock().unwrap();
    let guard = both.acquire().unwrap();
    assert_eq!((both.hold_count(), only.hold_count()), (2, 3));
    both.unlock().unwrap();
    guard.check().unwrap();
    guard.unlock().unwrap();
    assert_eq!((both.hold_count(), only.hold_count()), (0, 1));
    assert!(!server.has("a") && server.has("b"));
    only.unlock().unwrap();
    assert!(!server.has("b"));
}

#[test]
fn invalid_names_are_refused_by_the_first_call() {
    let server = Server::start();
    let client = client(&server.url());
    let of = |names: &[&str]| client.multi_lock(names.iter());
    for (lock, named) in [
        (of(&[]), "names"),
        (of(&["a", "b", "a"]), "names"),
        (of(&["a", ""]), "name"),
    ] {
        for (call, result) in every_call(&lock) {
            let Err(Error::InvalidArgument { argument, .. }) = result else {
                panic!("{call}: {result:?}");
            };
            assert_eq!(argument, named, "{call}");
        }
        assert_eq!((lock.hold_count(), server.size()), (0, 0));
    }
    let error = of(&["a", "b", "a"]).lock().unwrap_err().to_string();
    assert!(error.contains("\"a\""), "{error}");
}

/// Nothing is unlocked if a part has no level without a guard.
#[test]
fn an_unlock_releases_nothing_if_a_part_is_held_only_by_a_guard() {
    let server = Server::start();
    let client = client(&server.url());
    let (both, first) = (client.multi_lock(["a", "b"]), client.reentrant_lock("a"));
    let guard = client.reentrant_lock("b").acquire().unwrap();
    first.lock().unwrap();
    assert_matches!(both.unlock(), Err(Error::NotHeld { lock, .. }) if lock == "a, b");
    assert!(first.is_held_by_current_thread() && guard.check().is_ok());
    both.lock().unwrap();
    both.unlock().unwrap();
    assert_eq!((first.hold_count(), both.hold_count()), (1, 1));
    first.unlock().unwrap();
    guard.unlock().unwrap();
    assert_eq!(server.size(), 0);
}
