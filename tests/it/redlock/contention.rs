//! Many threads that want one lock, or many locks.

use std::sync::Barrier;

use super::{NAME, Servers};
use crate::support::prelude::*;

/// Whichever server is dead, including the one that orders the local queue.
#[test]
fn threads_of_one_process_get_the_lock_whichever_server_is_dead() {
    for dead in 0..3 {
        let servers = Servers::start(3);
        let lock = servers.lock();
        pair(&lock);
        servers.0[dead].kill();
        within(SOON.get(), "200 turns", || {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..50 {
                            let guard = lock.acquire().unwrap();
                            thread::sleep(Duration::from_millis(1));
                            guard.unlock().unwrap();
                        }
                    });
                }
            });
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
