//! Many threads that want one lock, or many locks.

use std::sync::Barrier;

use super::{NAME, Servers};
use crate::support::prelude::*;

/// The holder has no ticket of the dead server, so another thread has that one while it waits. The
/// hold lasts for longer than a call goes on without a reply.
#[test]
fn threads_wait_for_a_holder_in_their_process_whichever_server_is_dead() {
    for dead in 0..3 {
        let servers = Servers::start(3);
        let client = |server: &Server| {
            let builder = builder(&server.url()).command_timeout(millis(100));
            builder.give_up_after(millis(200)).build().unwrap()
        };
        let lock = RedLock::new(&servers.0.iter().map(client).collect::<Vec<_>>(), NAME);
        pair(&lock);
        servers.0[dead].kill();
        let held = lock.acquire().unwrap();
        thread::scope(|scope| {
            let waiting = [(); 2].map(|()| scope.spawn(|| lock.acquire().map(drop)));
            throughout(millis(500), "they wait", || {
                waiting.iter().all(|waiting| !waiting.is_finished())
            });
            for wait in [Duration::ZERO, millis(50)] {
                let lock = &lock;
                let attempt = move || {
                    lock.try_acquire(wait, Lease::RENEWED)
                        .map(|one| one.is_some())
                };
                let other = scope.spawn(attempt);
                let taken = within(wait + SLIP.get(), "a busy lock", || other.join().unwrap());
                assert!(!taken.unwrap());
            }
            held.unlock().unwrap();
            for waiting in waiting {
                within(SOON.get(), "its turn", || waiting.join().unwrap().unwrap());
            }
        });
    }
}

/// At first each has a part of the servers. All but one release them.
#[test]
fn of_many_clients_that_do_not_wait_one_gets_the_lock() {
    let servers = Servers::start(3);
    let patient = |server: &Server| builder(&server.url()).command_timeout(SOON.get());
    let clients = || {
        servers
            .0
            .iter()
            .map(|server| patient(server).build().unwrap())
    };
    let locks: Vec<RedLock> = (0..8)
        .map(|_| RedLock::new(&clients().collect::<Vec<_>>(), NAME))
        .collect();
    servers.0[2].kill();
    for _ in 0..50 {
        let (start, end) = (Barrier::new(locks.len()), Barrier::new(locks.len()));
        let holders = AtomicUsize::new(0);
        thread::scope(|scope| {
            for lock in &locks {
                scope.spawn(|| {
                    start.wait();
                    let found = lock.try_acquire(Duration::ZERO, Lease::RENEWED);
                    let is_held = matches!(found, Ok(Some(_)));
                    holders.fetch_add(usize::from(is_held), Ordering::Relaxed);
                    end.wait();
                    found.unwrap().map_or(Ok(()), LockGuard::unlock).unwrap();
                });
            }
        });
        assert_eq!(holders.into_inner(), 1);
    }
}
