//! Semaphores: permits without an owner.

mod deployments;
mod faults;
mod local;

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Interrupt, LockClient, Semaphore};

use crate::support::server::Server;
use crate::support::timing::{A_WHILE, Millis, SOON, eventually, millis, throughout, within};
use crate::support::{client, unique};

/// The longest time from a release until a waiting thread has the permit.
const WAKE_UP: Millis = Millis(500);

/// A semaphore with this number of permits.
fn semaphore(client: &LockClient, permits: u32) -> Semaphore {
    let semaphore = client.semaphore(&unique("permits"));
    assert!(semaphore.try_set_permits(permits).unwrap());
    semaphore
}

fn now(semaphore: &Semaphore, permits: u32) -> bool {
    semaphore.try_acquire(permits, Duration::ZERO).unwrap()
}

#[test]
fn permits_are_taken_and_returned() {
    let server = Server::start();
    let client = client(&server.url());
    let semaphore = client.semaphore("slots");
    assert_eq!(semaphore.name(), "slots");
    assert_eq!(semaphore.available().unwrap(), 0);
    assert!(!now(&semaphore, 1), "a semaphore without permits");
    assert!(semaphore.try_set_permits(3).unwrap());
    assert!(!semaphore.try_set_permits(7).unwrap());
    semaphore.acquire(2).unwrap();
    assert!(!now(&semaphore, 2) && now(&semaphore, 1) && !now(&semaphore, 1));
    semaphore.release(3).unwrap();
    assert_eq!(semaphore.available().unwrap(), 3);
    // A release without an acquire adds a permit.
    semaphore.release(1).unwrap();
    assert_eq!(semaphore.drain().unwrap(), 4);
    assert_eq!(
        (semaphore.drain().unwrap(), semaphore.available().unwrap()),
        (0, 0)
    );
    // It exists without free permits.
    assert!(!semaphore.try_set_permits(1).unwrap());
}

#[test]
fn permits_can_be_added_and_removed() {
    let server = Server::start();
    let semaphore = semaphore(&client(&server.url()), 2);
    semaphore.add_permits(3).unwrap();
    semaphore.add_permits(-7).unwrap();
    assert_eq!(semaphore.available().unwrap(), -2);
    assert!(!now(&semaphore, 1));
    semaphore.release(2).unwrap();
    assert!(!now(&semaphore, 1));
    semaphore.add_permits(-1).unwrap();
    assert_eq!(semaphore.drain().unwrap(), -1);
    assert_eq!(semaphore.available().unwrap(), 0);
    // A missing semaphore is created.
    let missing = client(&server.url()).semaphore("missing");
    missing.add_permits(1).unwrap();
    assert!(now(&missing, 1));
}

#[test]
fn zero_permits_are_always_there_and_too_many_are_refused() {
    let server = Server::start();
    let semaphore = semaphore(&client(&server.url()), 1);
    semaphore.acquire(0).unwrap();
    semaphore.release(0).unwrap();
    semaphore.add_permits(0).unwrap();
    let interrupt = Interrupt::new();
    assert!(
        semaphore
            .try_acquire_interruptibly(0, SOON.get(), &interrupt)
            .unwrap()
    );
    let max = u32::try_from(i32::MAX).unwrap();
    let refused = |result: leasehold::Result<()>| {
        assert!(
            matches!(
                result,
                Err(Error::Config {
                    field: "permits",
                    ..
                })
            ),
            "{result:?}"
        );
    };
    refused(semaphore.acquire(max + 1));
    refused(semaphore.release(u32::MAX));
    refused(semaphore.try_set_permits(max + 1).map(drop));
    refused(semaphore.release(max));
    refused(semaphore.add_permits(i32::MAX));
    assert_eq!(semaphore.available().unwrap(), 1);
    semaphore.add_permits(i32::MAX - 1).unwrap();
    assert_eq!(semaphore.available().unwrap(), i32::MAX);
    semaphore.drain().unwrap();
    semaphore.add_permits(i32::MIN).unwrap();
    refused(semaphore.add_permits(-1));
    assert_eq!(semaphore.available().unwrap(), i32::MIN);
}

#[test]
fn a_release_of_another_client_wakes_a_waiting_thread_at_once() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let semaphore = semaphore(&ours, 1);
    let waiting = theirs.semaphore(semaphore.name());
    for permits in [1, 3] {
        semaphore.drain().unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                waiting.acquire(permits).unwrap();
                Instant::now()
            });
            throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
            for _ in 1..permits {
                semaphore.release(1).unwrap();
            }
            throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
            let released = Instant::now();
            semaphore.release(1).unwrap();
            let took = waiter.join().unwrap().duration_since(released);
            assert!(took < WAKE_UP.get(), "{took:?}");
        });
        assert_eq!(semaphore.available().unwrap(), 0);
    }
}

/// A release, an addition and the first permits.
#[test]
fn every_change_that_frees_permits_wakes_waiting_threads() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    type Change = fn(&Semaphore) -> leasehold::Result<()>;
    let changes: [Change; 3] = [
        |semaphore| semaphore.release(1),
        |semaphore| semaphore.add_permits(1),
        |semaphore| semaphore.try_set_permits(1).map(drop),
    ];
    for change in changes {
        let semaphore = ours.semaphore(&unique("permits"));
        let waiting = theirs.semaphore(semaphore.name());
        let woken = theirs.stats().wakeups_by_message;
        thread::scope(|scope| {
            let waiter = scope.spawn(|| waiting.acquire(1));
            eventually("it listens", || theirs.stats().wakeups_by_message > woken);
            throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
            change(&semaphore).unwrap();
            eventually("it has the permit", || waiter.is_finished());
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(semaphore.available().unwrap(), 0);
    }
}

#[test]
fn a_wait_ends_in_time_without_permits() {
    let server = Server::start();
    let semaphore = semaphore(&client(&server.url()), 1);
    let start = Instant::now();
    assert!(!semaphore.try_acquire(2, A_WHILE.get()).unwrap());
    assert!(start.elapsed() >= A_WHILE.get());
    within(A_WHILE.get() * 3, "a wait that ends", || {
        assert!(!semaphore.try_acquire(2, A_WHILE.get()).unwrap());
    });
    assert_eq!(semaphore.available().unwrap(), 1);
}

#[test]
fn an_interrupt_ends_a_wait() {
    let server = Server::start();
    let semaphore = semaphore(&client(&server.url()), 0);
    type Call = fn(&Semaphore, &Interrupt) -> leasehold::Result<()>;
    let calls: [Call; 2] = [
        |semaphore, interrupt| semaphore.acquire_interruptibly(1, interrupt),
        |semaphore, interrupt| {
            let wait = SOON.get() * 6;
            semaphore
                .try_acquire_interruptibly(1, wait, interrupt)
                .map(drop)
        },
    ];
    for call in calls {
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| call(&semaphore, &interrupt));
            throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
            interrupt.interrupt();
            let result = within(SOON.get(), "an interrupt", || waiter.join().unwrap());
            assert!(
                matches!(result, Err(Error::Interrupted { .. })),
                "{result:?}"
            );
        });
        // Raised before.
        let result = call(&semaphore, &interrupt);
        assert!(
            matches!(result, Err(Error::Interrupted { .. })),
            "{result:?}"
        );
    }
    semaphore.release(1).unwrap();
    assert!(now(&semaphore, 1), "no thread waits any more");
}

/// Never more permits in use than there are.
#[test]
fn two_clients_never_have_more_permits_than_there_are() {
    use std::sync::atomic::{AtomicI32, Ordering};
    const PERMITS: i32 = 3;
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    let first = semaphore(&clients[0], 3);
    let (in_use, most) = (AtomicI32::new(0), AtomicI32::new(0));
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let (first, in_use, most) = (&first, &in_use, &most);
            let semaphore = clients[usize::try_from(number).unwrap() % 2].semaphore(first.name());
            scope.spawn(move || {
                let permits = 1 + number % 3;
                let wanted = i32::try_from(permits).unwrap();
                for _ in 0..20 {
                    semaphore.acquire(permits).unwrap();
                    let used = in_use.fetch_add(wanted, Ordering::SeqCst) + wanted;
                    most.fetch_max(used, Ordering::SeqCst);
                    thread::yield_now();
                    in_use.fetch_sub(wanted, Ordering::SeqCst);
                    semaphore.release(permits).unwrap();
                }
            });
        }
    });
    assert!((1..=PERMITS).contains(&most.into_inner()));
    assert_eq!(first.available().unwrap(), PERMITS);
}

#[test]
fn a_key_of_another_type_is_reported_and_stays() {
    let server = Server::start();
    let semaphore = client(&server.url()).semaphore("key");
    for (command, found) in [
        ("HSET key field 1", "a hash"),
        ("RPUSH key 1", "a list"),
        ("SET key text", "a string that is not a number"),
        ("SET key 9007199254740992", "a string that is not a number"),
        ("SET key 1.5", "a string that is not a number"),
    ] {
        server.ask::<()>(&redis::cmd("FLUSHALL"));
        let mut words = command.split(' ');
        let mut cmd = redis::cmd(words.next().unwrap());
        cmd.arg(words.collect::<Vec<_>>());
        server.ask::<()>(&cmd);
        let digest =
            || server.ask::<Vec<String>>(redis::cmd("DEBUG").arg("DIGEST-VALUE").arg("key"));
        let before = digest();
        for result in [
            semaphore.try_set_permits(1).map(drop),
            semaphore.acquire(1),
            semaphore.release(1),
            semaphore.add_permits(-1),
            semaphore.drain().map(drop),
            semaphore.available().map(drop),
        ] {
            let Err(Error::WrongType {
                lock, found: what, ..
            }) = &result
            else {
                panic!("{command}: {result:?}");
            };
            assert_eq!(lock, "key");
            assert!(
                what.starts_with(found) && what.ends_with("in the key \"key\""),
                "{what}"
            );
        }
        assert_eq!(digest(), before, "{command}");
        assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 1, "{command}");
    }
}

#[test]
fn a_handle_can_be_shared_and_shown() {
    fn is_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let server = Server::start();
    let semaphore = client(&server.url()).semaphore("slots");
    is_shared(&semaphore);
    let node = server.address();
    let expected = format!("Semaphore {{ name: \"slots\", node: \"{node}\" }}");
    assert_eq!(format!("{semaphore:?}"), expected);
    for name in [String::new(), "x".repeat(513)] {
        let refused = client(&server.url()).semaphore(&name).acquire(1);
        assert!(
            matches!(refused, Err(Error::Config { field: "name", .. })),
            "{refused:?}"
        );
    }
    // Waits are bounded although there are no permits.
    assert!(!semaphore.try_acquire(1, millis(1)).unwrap());
}
