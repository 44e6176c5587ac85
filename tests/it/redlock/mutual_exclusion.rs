//! Mutual exclusion between processes on a majority, and every thread gets the lock.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use leasehold::{Lease, LockClient, RedLock};

use super::Servers;
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually, millis, throughout, within};

const PROCESSES: usize = 4;
const THREADS: usize = 4;
const TIMES: usize = 20;

/// The time that two servers hang. It is not scaled for a slow machine, so that calls do not wait
/// longer.
const PAUSE: Duration = Duration::from_millis(300);

/// All processes increment one number; `meanwhile` happens repeatedly to the servers of the lock.
fn increment_together(meanwhile: impl Fn(&Servers)) {
    let (servers, counter) = (Servers::start(5), Server::start());
    let urls: Vec<String> = servers.0.iter().map(Server::url).collect();
    let (urls, counter_url) = (urls.join(" "), counter.url());
    within(SOON.get() * 6, "all of them", || {
        let start = |_| Process::start("share_majority", &[&urls, &counter_url]);
        let mut children: Vec<Process> = (0..PROCESSES).map(start).collect();
        while !children.iter_mut().all(Process::is_over) {
            meanwhile(&servers);
        }
        for child in children {
            child.finish();
        }
    });
    let counted: usize = counter.ask(redis::cmd("GET").arg("counter"));
    assert_eq!(counted, PROCESSES * THREADS * TIMES);
    eventually("the lock to be free", || servers.held() == 0);
}

#[test]
fn four_processes_of_four_threads_lose_no_increment() {
    increment_together(|_| thread::sleep(millis(5)));
}

/// Each server is one of two that hang for a while, in turn.
#[test]
fn four_processes_of_four_threads_lose_no_increment_while_servers_hang_in_turn() {
    let next = Cell::new(0);
    increment_together(|servers| {
        let at = next.replace(next.get() + 1);
        let two = [&servers.0[at % 5], &servers.0[(at + 1) % 5]];
        two.iter().for_each(|server| server.pause());
        thread::sleep(PAUSE);
        two.iter().for_each(|server| server.resume());
        thread::sleep(PAUSE / 6);
    });
    assert!(next.get() > 3, "{} pauses", next.get());
}

/// The role of each process: increments by GET and SET, so a second holder in between would lose
/// one.
pub fn share_majority(arguments: &[&str]) {
    let urls: Vec<&str> = arguments[0].split(' ').collect();
    // Long enough that no stall of a busy machine ends it.
    let client = |url: &&str| {
        LockClient::builder(url)
            .watchdog_lease(SOON.get())
            .command_timeout(millis(1_000))
            .build()
            .unwrap()
    };
    let clients: Vec<LockClient> = urls.iter().map(client).collect();
    let lock = RedLock::new(&clients, super::NAME);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let counter = redis::Client::open(arguments[1]).unwrap();
                let mut redis = counter.get_connection().unwrap();
                for _ in 0..TIMES {
                    let guard = lock.acquire().unwrap();
                    let count: Option<usize> =
                        redis::cmd("GET").arg("counter").query(&mut redis).unwrap();
                    let next = count.unwrap_or(0) + 1;
                    redis::cmd("SET")
                        .arg("counter")
                        .arg(next)
                        .exec(&mut redis)
                        .unwrap();
                    guard.unlock().unwrap();
                }
            });
        }
    });
    child::send_line("done");
}

/// A message wakes the waiter before a lease or a poll ends.
#[test]
fn a_waiter_is_woken_by_the_release() {
    let servers = Servers::start(3);
    let (ours, theirs) = (servers.lock(), servers.lock());
    // From now on the subscriptions exist.
    for _ in 0..2 {
        ours.lock_with(Lease::fixed(SOON.get() * 6)).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                assert!(theirs.try_lock(SOON.get(), Lease::RENEWED).unwrap());
                theirs.unlock().unwrap();
            });
            throughout(millis(300), "the waiter waits", || !waiter.is_finished());
            ours.unlock().unwrap();
            within(SOON.get() / 2, "the wake-up", || waiter.join().unwrap());
        });
    }
}
