//! Semaphores: permits without an owner. `permits` has what they share with other kinds.

use leasehold::Semaphore;

use crate::support::prelude::*;

fn now(semaphore: &Semaphore, permits: u32) -> bool {
    semaphore.try_acquire(permits, Duration::ZERO).unwrap()
}

#[test]
fn permits_are_taken_returned_added_and_removed() {
    let server = Server::start();
    let client = client(&server.url());
    let semaphore = client.semaphore("slots");
    let available = || semaphore.available().unwrap();
    assert_eq!((semaphore.name(), available()), ("slots", 0));
    assert!(!now(&semaphore, 1), "a semaphore without permits");
    assert!(semaphore.try_set_permits(3).unwrap());
    assert!(!semaphore.try_set_permits(7).unwrap());
    semaphore.acquire(2).unwrap();
    assert!(!now(&semaphore, 2) && now(&semaphore, 1) && !now(&semaphore, 1));
    semaphore.release(3).unwrap();
    assert_eq!(available(), 3);
    // A release without an acquire adds a permit.
    semaphore.release(1).unwrap();
    assert_eq!(semaphore.drain().unwrap(), 4);
    assert_eq!((semaphore.drain().unwrap(), available()), (0, 0));
    // It exists without free permits.
    assert!(!semaphore.try_set_permits(1).unwrap());
    semaphore.add_permits(5).unwrap();
    semaphore.add_permits(-7).unwrap();
    assert_eq!(available(), -2);
    semaphore.release(2).unwrap();
    assert!(!now(&semaphore, 1));
    semaphore.add_permits(-1).unwrap();
    assert_eq!((semaphore.drain().unwrap(), available()), (-1, 0));
}

#[test]
fn zero_permits_are_always_there_and_too_many_are_refused() {
    let server = Server::start();
    let semaphore = client(&server.url()).semaphore("slots");
    semaphore.acquire(0).unwrap();
    semaphore.release(0).unwrap();
    semaphore.add_permits(i32::MAX.into()).unwrap();
    let max = u32::try_from(i32::MAX).unwrap();
    for refused in [
        semaphore.acquire(max + 1),
        semaphore.try_set_permits(max + 1).map(drop),
        semaphore.release(u32::MAX),
        semaphore.release(1),
    ] {
        assert_error!(refused, InvalidArgument);
    }
    assert_eq!(semaphore.drain().unwrap(), i64::from(i32::MAX));
    semaphore.add_permits(i32::MIN.into()).unwrap();
    for refused in [-1, i64::MIN, i64::from(u32::MAX)] {
        assert_error!(semaphore.add_permits(refused), InvalidArgument);
    }
    assert_eq!(semaphore.available().unwrap(), i64::from(i32::MIN));
}

/// However few permits it wants.
#[test]
fn a_call_that_does_not_wait_passes_no_thread_of_its_client_that_waits() {
    let server = Server::start();
    let semaphore = client(&server.url()).semaphore("slots");
    assert!(semaphore.try_set_permits(1).unwrap());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| semaphore.try_acquire(2, SOON.get()).unwrap());
        stay_waiting([&waiter]);
        assert!(!now(&semaphore, 1));
        semaphore.release(1).unwrap();
        assert!(waiter.join().unwrap());
    });
    assert_eq!(semaphore.available().unwrap(), 0);
}

/// In any thread, and after a panic.
#[test]
fn a_guard_releases_its_permits_once() {
    let server = Server::start();
    let semaphore = client(&server.url()).semaphore("slots");
    assert!(semaphore.try_set_permits(3).unwrap());
    let two = semaphore.acquire_guard(2).unwrap();
    assert_eq!((two.name(), two.permits()), ("slots", 2));
    let try_two = || semaphore.try_acquire_guard(2, Duration::ZERO).unwrap();
    assert!(try_two().is_none());
    on_another_thread(|| drop(two));
    assert_eq!(semaphore.available().unwrap(), 3);
    try_two().unwrap().release().unwrap();
    assert_eq!(semaphore.available().unwrap(), 3);
    let interrupt = Interrupt::new();
    let all = semaphore
        .acquire_guard_interruptibly(3, &interrupt)
        .unwrap();
    interrupt.interrupt();
    let more = semaphore.try_acquire_guard_interruptibly(1, Duration::MAX, &interrupt);
    assert_error!(more, Interrupted);
    let panicked = thread::spawn(move || {
        let _all = all;
        panic!("as planned");
    });
    assert!(panicked.join().is_err());
    assert_eq!(semaphore.available().unwrap(), 3);
}
