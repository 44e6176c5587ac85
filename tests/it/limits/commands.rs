//! The number of commands and connections.

use crate::support::prelude::*;

#[test]
fn an_uncontended_pair_is_two_commands() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock("lock");
    let (semaphore, leased) = (client.semaphore("slots"), client.leased_semaphore("leased"));
    assert!(semaphore.try_set_permits(2).unwrap());
    assert!(leased.try_set_permits(2).unwrap());
    let pairs: [&dyn Fn(); 3] = [
        &|| pair(&lock),
        &|| {
            semaphore.acquire(2).unwrap();
            semaphore.release(2).unwrap();
        },
        &|| drop(leased.acquire().unwrap()),
    ];
    pairs.iter().for_each(|pair| pair());
    let mut monitor = Monitor::of(&server);
    for pair in pairs {
        (0..10).for_each(|_| pair());
        assert_eq!(monitor.commands(), ["EVALSHA"; 20]);
    }
    // No permits are no command.
    semaphore.acquire(0).unwrap();
    semaphore.release(0).unwrap();
    semaphore.add_permits(0).unwrap();
    assert_eq!(monitor.commands(), [""; 0]);
}

#[test]
fn a_nested_pair_is_no_command() {
    let server = Server::start();
    let client = builder(&server.url()).watchdog_lease(SOON.get() * 6);
    let lock = client.build().unwrap().reentrant_lock("lock");
    lock.lock().unwrap();
    let mut monitor = Monitor::of(&server);
    for _ in 0..1000 {
        lock.lock().unwrap();
        lock.acquire().unwrap().unlock().unwrap();
        lock.unlock().unwrap();
    }
    // On a busy machine a level may last so long that the watchdog writes the count.
    let sent = monitor.commands();
    assert!(sent.len() < 10, "{sent:?}");
    // A lease that is longer than what is left of the old one has to be asked for.
    for longer in [60, 61] {
        monitor.commands();
        lock.lock_with(Lease::fixed(SOON.get() * longer)).unwrap();
    }
    let sent = monitor.commands();
    assert!((1..=2).contains(&sent.len()), "{sent:?}");
    (0..3).for_each(|_| lock.unlock().unwrap());
}
