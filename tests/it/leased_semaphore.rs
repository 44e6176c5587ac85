//! The semaphore whose permits have leases.

mod deployments;
mod fairness;
mod hangs;
mod loss;
mod lost_replies;
pub mod processes;
mod renewal;
mod view;
mod waiting;
mod wire;

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease, LeasedSemaphore, PermitGuard};

use crate::support::server::Server;
use crate::support::timing::{LEASE, SOON, millis};
use crate::support::traffic::Monitor;
use crate::support::{client, unique};
use view::View;

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
    let ids: std::collections::HashSet<&str> = guards.iter().map(PermitGuard::id).collect();
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
fn without_permits_nothing_is_acquired() {
    let server = Server::start();
    let semaphore = client(&server.url()).leased_semaphore(&unique("none"));
    assert_eq!(counts(&semaphore), (0, 0));
    assert!(now(&semaphore).is_none());
    let lease = Lease::RENEWED;
    assert!(semaphore.try_acquire(millis(20), lease).unwrap().is_none());
    assert_eq!(counts(&semaphore), (0, 0));
}

#[test]
fn the_number_of_permits_can_be_changed() {
    let server = Server::start();
    let semaphore = client(&server.url()).leased_semaphore(&unique("total"));
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

#[test]
fn numbers_and_names_outside_their_bounds_are_refused() {
    let server = Server::start();
    let client = client(&server.url());
    let semaphore = client.leased_semaphore(&unique("bounds"));
    for permits in [1 << 31, u32::MAX] {
        for result in [
            semaphore.try_set_permits(permits).map(drop),
            semaphore.set_permits(permits),
        ] {
            let field = "permits";
            assert!(
                matches!(&result, Err(Error::Config { field: found, .. }) if *found == field),
                "{result:?}"
            );
        }
    }
    assert_eq!(counts(&semaphore), (0, 0));
    let short = Lease::fixed(Duration::ZERO);
    assert!(matches!(
        semaphore.acquire_with(short),
        Err(Error::Config { .. })
    ));
    let empty = client.leased_semaphore("");
    assert!(matches!(empty.try_acquire_now(), Err(Error::Config { .. })));
    assert!(matches!(empty.permits(), Err(Error::Config { .. })));
}

/// Permits whose guard another thread releases, and threads that use one guard together.
#[test]
fn a_permit_belongs_to_its_guard_and_to_no_thread() {
    let server = Server::start();
    let semaphore = semaphore(&server, &unique("sent"), 1);
    let guard = semaphore.acquire().unwrap();
    let guard = thread::spawn(move || {
        thread::scope(|scope| {
            scope.spawn(|| guard.confirm().unwrap());
            scope.spawn(|| guard.extend(LEASE.get() * 9).unwrap());
        });
        guard
    });
    let guard = guard.join().unwrap();
    assert!(guard.remaining() > LEASE.get() * 8);
    thread::spawn(move || guard.release().unwrap())
        .join()
        .unwrap();
    assert_eq!(counts(&semaphore), (1, 1));
}

#[test]
fn a_thread_can_have_several_permits_and_locks() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("several");
    let semaphore = client.leased_semaphore(&name);
    semaphore.try_set_permits(3).unwrap();
    let permits = [(); 3].map(|()| now(&semaphore).unwrap());
    let other = client.leased_semaphore(&unique("other"));
    other.try_set_permits(1).unwrap();
    let another = other.acquire().unwrap();
    let lock = client.reentrant_lock(&unique("lock")).acquire().unwrap();
    let [first, second, third] = permits;
    second.release().unwrap();
    lock.unlock().unwrap();
    for permit in [first, third, another] {
        permit.confirm().unwrap();
    }
    assert_eq!((counts(&semaphore), counts(&other)), ((3, 3), (1, 1)));
}

/// No more than K at once, over threads of several clients, and no permit is lost.
#[test]
fn never_more_than_k_permits_are_leased() {
    const K: i64 = 3;
    let server = Server::start();
    let name = unique("k");
    let semaphores = [(); 4].map(|()| semaphore(&server, &name, K as u32));
    let (at_work, most) = (AtomicI64::new(0), AtomicI64::new(0));
    thread::scope(|scope| {
        for semaphore in semaphores.iter().cycle().take(12) {
            scope.spawn(|| {
                for turn in 0..40 {
                    let guard = match turn % 3 {
                        0 => semaphore.acquire().unwrap(),
                        1 => match now(semaphore) {
                            Some(guard) => guard,
                            None => continue,
                        },
                        _ => semaphore
                            .try_acquire(SOON.get(), Lease::fixed(SOON.get()))
                            .unwrap()
                            .expect("every permit is released soon"),
                    };
                    let now = at_work.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    thread::yield_now();
                    guard.check().unwrap();
                    at_work.fetch_sub(1, Ordering::SeqCst);
                    guard.release().unwrap();
                }
            });
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), K, "all permits were used");
    assert_eq!(counts(&semaphores[0]), (K, K));
    assert_eq!(View::of(&server, &name).leases(), []);
}

#[test]
fn an_uncontended_pair_is_two_commands() {
    let server = Server::start();
    let semaphore = semaphore(&server, &unique("pair"), 2);
    semaphore.acquire().unwrap().release().unwrap();
    let mut monitor = Monitor::of(&server);
    for _ in 0..10 {
        drop(semaphore.acquire().unwrap());
    }
    assert_eq!(monitor.commands(), ["EVALSHA"; 20]);
}

#[test]
fn handles_and_guards_show_their_state() {
    let server = Server::start();
    let semaphore = semaphore(&server, "mail", 1);
    let shown = format!("{semaphore:?}");
    assert!(
        shown.contains("LeasedSemaphore") && shown.contains("\"mail\""),
        "{shown}"
    );
    let guard = semaphore.acquire().unwrap();
    let shown = format!("{guard:?}");
    assert!(
        shown.contains("Held") && shown.contains(guard.id()),
        "{shown}"
    );
}
