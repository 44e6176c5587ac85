//! The semaphore whose permits have leases. `permits` has what it shares with other kinds.

mod faults;
mod limit;
mod loss;
mod together;
mod view;
mod wire;

use crate::support::prelude::*;

/// A semaphore with this number of permits, of a client of its own.
fn semaphore(server: &Server, name: &str, permits: u32) -> LeasedSemaphore {
    let semaphore = client(&server.url()).leased_semaphore(name);
    semaphore.try_set_permits(permits).unwrap();
    semaphore
}

fn now(semaphore: &LeasedSemaphore) -> Option<PermitGuard> {
    semaphore.try_acquire_now().unwrap()
}

/// The numbers of available permits and of all permits.
fn counts(semaphore: &LeasedSemaphore) -> (i64, i64) {
    (semaphore.available().unwrap(), semaphore.permits().unwrap())
}

#[test]
fn permits_are_leased_until_none_is_left_and_come_back() {
    let server = Server::start();
    let semaphore = semaphore(&server, &unique("three"), 3);
    let mut guards: Vec<PermitGuard> = (0..3).map(|_| semaphore.acquire().unwrap()).collect();
    assert_eq!(counts(&semaphore), (0, 3));
    assert!(now(&semaphore).is_none());
    let ids: HashSet<&str> = guards.iter().map(PermitGuard::id).collect();
    assert_eq!(ids.len(), 3, "each permit has an id of its own");
    guards.pop().unwrap().release().unwrap();
    assert_eq!(counts(&semaphore), (1, 3));
    drop(guards.pop());
    assert_eq!(counts(&semaphore), (2, 3));
    let again = now(&semaphore).unwrap();
    again.check().unwrap();
    assert!(!again.is_lost() && again.lost().is_empty());
    assert!(again.remaining() > LEASE.get() / 2);
}

#[test]
fn the_number_of_permits_can_be_changed() {
    let server = Server::start();
    let semaphore = client(&server.url()).leased_semaphore(&unique("total"));
    assert_eq!(counts(&semaphore), (0, 0));
    assert!(now(&semaphore).is_none());
    for permits in [1 << 31, u32::MAX] {
        assert_error!(semaphore.try_set_permits(permits), InvalidArgument);
        assert_error!(semaphore.set_permits(permits), InvalidArgument);
    }
    assert_error!(
        semaphore.acquire_with(Lease::fixed(Duration::ZERO)),
        InvalidArgument
    );
    assert!(semaphore.try_set_permits(2).unwrap());
    assert!(!semaphore.try_set_permits(7).unwrap());
    let held = [(); 2].map(|()| semaphore.acquire().unwrap());
    semaphore.add_permits(3).unwrap();
    assert_eq!(counts(&semaphore), (3, 5));
    semaphore.add_permits(-1).unwrap();
    assert_eq!(counts(&semaphore), (2, 4));
    semaphore.set_permits(2).unwrap();
    assert_eq!(counts(&semaphore), (0, 2));
    // No permit is taken from its holder.
    semaphore.set_permits(1).unwrap();
    assert_eq!(counts(&semaphore), (-1, 1));
    held.iter().for_each(|guard| guard.confirm().unwrap());
    let [first, second] = held;
    first.release().unwrap();
    assert!(now(&semaphore).is_none(), "one permit, which is leased");
    second.release().unwrap();
    assert_eq!(counts(&semaphore), (1, 1));
    semaphore.set_permits(0).unwrap();
    assert!(now(&semaphore).is_none());
}

/// Threads use one guard together, and another thread releases it. A thread has several permits,
/// and a lock.
#[test]
fn a_permit_belongs_to_its_guard_and_to_no_thread() {
    let server = Server::start();
    let client = client(&server.url());
    let semaphore = client.leased_semaphore(&unique("sent"));
    semaphore.try_set_permits(3).unwrap();
    let [first, second, third] = [(); 3].map(|()| now(&semaphore).unwrap());
    let other = client.leased_semaphore(&unique("other"));
    other.try_set_permits(1).unwrap();
    let another = other.acquire().unwrap();
    let lock = client.reentrant_lock(&unique("lock")).acquire().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| second.confirm().unwrap());
        scope.spawn(|| second.extend(LEASE.get() * 9).unwrap());
    });
    assert!(second.remaining() > LEASE.get() * 8);
    let releases = thread::spawn(move || second.release().unwrap());
    releases.join().unwrap();
    lock.unlock().unwrap();
    for permit in [first, third, another] {
        permit.confirm().unwrap();
    }
    assert_eq!((counts(&semaphore), counts(&other)), ((3, 3), (1, 1)));
}
