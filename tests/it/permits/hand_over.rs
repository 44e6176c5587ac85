//! Threads that release permits of a semaphore hand them over to threads of their client.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;

use crate::support::server::Server;
use crate::support::timing::{SOON, eventually, within};
use crate::support::traffic::scripts;
use crate::support::{Stop, client, unique};

const PERMITS: u32 = 2;
const THREADS: usize = 12;

/// Most permits change hands without a request. Never more are taken than there are. Another client
/// gets its turn all the same.
#[test]
fn permits_change_hands_without_requests_and_another_client_gets_its_turn() {
    const TURNS: u64 = 20;
    const SAMPLE: u64 = 2000;
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let name = unique("passing");
    let (ours, theirs) = (ours.semaphore(&name), theirs.semaphore(&name));
    ours.add_permits(PERMITS.cast_signed()).unwrap();
    let (taken, most) = (AtomicI64::new(0), AtomicI64::new(0));
    let (pairs, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let pair = |semaphore: &leasehold::Semaphore| {
        semaphore.acquire(1).unwrap();
        most.fetch_max(taken.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::yield_now();
        taken.fetch_sub(1, Ordering::SeqCst);
        semaphore.release(1).unwrap();
    };
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    pair(&ours);
                    pairs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        within(SOON.get() * 2, "the other client", || {
            (0..TURNS).for_each(|_| pair(&theirs));
        });
        // Without a hand-over each pair takes two requests, and three if it is refused at first. A
        // machine that is busy with other programs makes hand-overs come too late for their slice,
        // so a burst of them may spoil a sample, but not all samples.
        let sample = || (scripts(&server), pairs.load(Ordering::Relaxed));
        let mut start = sample();
        eventually("pairs that take no requests", || {
            let now = sample();
            let (requests, pairs) = (now.0 - start.0, now.1 - start.1);
            if pairs < SAMPLE {
                return false;
            }
            println!("{requests} requests for {pairs} pairs");
            start = now;
            requests * 2 < pairs * 3
        });
    });
    assert_eq!(most.into_inner(), i64::from(PERMITS));
    assert_eq!(ours.available().unwrap(), PERMITS.cast_signed());
}
