//! No client and no thread waits much longer than the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::semaphore;
use crate::support::server::Server;
use crate::support::timing::{LEASE, millis};
use crate::support::unique;

/// How often each of these clients gets a permit, with this many threads each, and the longest
/// wait. Each permit is held for `hold`.
fn shares(permits: u32, clients: usize, threads: usize, hold: Duration) -> (Vec<u32>, Duration) {
    let server = Server::options().alone().start();
    let name = unique("shares");
    let semaphores: Vec<_> = (0..clients)
        .map(|_| semaphore(&server, &name, permits))
        .collect();
    let ends = AtomicBool::new(false);
    let work = |semaphore: &leasehold::LeasedSemaphore| {
        let (mut times, mut longest) = (0, Duration::ZERO);
        while !ends.load(Ordering::SeqCst) {
            let asked = Instant::now();
            let guard = semaphore.acquire().unwrap();
            longest = longest.max(asked.elapsed());
            thread::sleep(hold);
            guard.release().unwrap();
            times += 1;
        }
        (times, longest)
    };
    thread::scope(|scope| {
        let working: Vec<Vec<_>> = semaphores
            .iter()
            .map(|semaphore| {
                let threads = (0..threads).map(|_| {
                    let work = &work;
                    scope.spawn(move || work(semaphore))
                });
                threads.collect()
            })
            .collect();
        thread::sleep(millis(700));
        ends.store(true, Ordering::SeqCst);
        let mut longest = Duration::ZERO;
        let shares = working.into_iter().map(|threads| {
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            results.fold(0, |sum, (times, wait)| {
                longest = longest.max(wait);
                sum + times
            })
        });
        (shares.collect(), longest)
    })
}

/// Without any pause between the release and the next acquire.
#[test]
#[ignore = "soak"]
fn clients_that_compete_get_similar_shares() {
    for (permits, clients, threads, hold) in [(1, 2, 1, 0), (2, 4, 2, 1)] {
        let hold = Duration::from_millis(hold);
        let (shares, longest) = shares(permits, clients, threads, hold);
        println!("{permits} permits: {shares:?}, longest wait {longest:?}");
        let (fewest, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        assert!(fewest * 5 >= *most, "{shares:?}");
        assert!(longest < LEASE.get(), "{longest:?}");
    }
}
