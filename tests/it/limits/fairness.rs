//! No thread waits much longer than the others.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::child;
use crate::support::outcome::take_and_release;
use crate::support::server::Server;
use crate::support::timing::{eventually, millis};

const THREADS: usize = 8;

/// In its own process, while no other test has a server, because it measures times.
#[test]
#[ignore = "soak"]
fn eight_threads_share_one_lock_evenly() {
    let server = Server::options().alone().start();
    let said = child::run_role("share", &[&server.url()]);
    println!("{said:?}");
}

/// The role: eight threads acquire and release one lock, as fast as they can.
pub fn share(arguments: &[&str]) {
    let client = crate::support::client(arguments[0]);
    take_and_release(&client.reentrant_lock("lock"));
    // A thread that starts late or ends early leaves the lock to the others, so only the time in
    // which all of them run counts.
    let running = AtomicUsize::new(0);
    let (counts, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    let (results, stall): (Vec<(u32, Duration)>, Duration) = thread::scope(|scope| {
        let run = || {
            let lock = client.reentrant_lock("lock");
            let (mut times, mut longest) = (0, Duration::ZERO);
            running.fetch_add(1, Ordering::SeqCst);
            while !ends.load(Ordering::SeqCst) {
                let started = Instant::now();
                lock.lock().unwrap();
                let waited = started.elapsed();
                lock.unlock().unwrap();
                if counts.load(Ordering::SeqCst) {
                    times += 1;
                    longest = longest.max(waited);
                }
            }
            (times, longest)
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        eventually("all to run", || running.load(Ordering::SeqCst) == THREADS);
        counts.store(true, Ordering::SeqCst);
        let stall = longest_stall(millis(2000));
        counts.store(false, Ordering::SeqCst);
        ends.store(true, Ordering::SeqCst);
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        (results.collect(), stall)
    });
    let times = results.iter().map(|(times, _)| f64::from(*times));
    let (fewest, most) = times.fold((f64::MAX, 0.0), |(fewest, most): (f64, f64), times| {
        (fewest.min(times), most.max(times))
    });
    let longest = results.iter().map(|(_, longest)| *longest).max().unwrap();
    child::send_line(format!(
        "{fewest} to {most} times, longest wait {longest:?}, stall {stall:?}"
    ));
    assert!(fewest / most >= 0.8, "{results:?}");
    // A thread waits for eight holds, each of which the machine may delay.
    let bound = millis(100) + stall * 4;
    assert!(longest < bound, "{longest:?}, stall {stall:?}: {results:?}");
}

/// The longest delay of a thread that only sleeps for a millisecond at a time.
fn longest_stall(run: Duration) -> Duration {
    let (begin, nap) = (Instant::now(), Duration::from_millis(1));
    let mut longest = Duration::ZERO;
    while begin.elapsed() < run {
        let asleep = Instant::now();
        thread::sleep(nap);
        longest = longest.max(asleep.elapsed() - nap);
    }
    longest
}
