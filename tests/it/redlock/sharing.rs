//! One holder at a time, and everybody gets it.

use std::thread;

use leasehold::{Lease, Lock, LockClient, RedLock};

use super::Servers;
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually, millis, throughout, within};

const PROCESSES: usize = 4;
const THREADS: usize = 4;
const TIMES: usize = 20;

#[test]
fn four_processes_of_four_threads_count_together() {
    let servers = Servers::start(5);
    let urls: Vec<String> = servers.0.iter().map(Server::url).collect();
    let urls = urls.join(" ");
    within(SOON.get() * 6, "all of them", || {
        let start = |_| Process::start("share_majority", &[&urls]);
        let children: Vec<Process> = (0..PROCESSES).map(start).collect();
        for child in children {
            child.finish();
        }
    });
    let counted: usize = servers.0[0].ask(redis::cmd("GET").arg("counter"));
    assert_eq!(counted, PROCESSES * THREADS * TIMES);
    eventually("it to be free", || servers.held() == 0);
}

/// The role of each process: increments by GET and SET, between which everybody else would do harm.
pub fn share_majority(arguments: &[&str]) {
    let urls: Vec<&str> = arguments[0].split(' ').collect();
    // Long enough that no stall of a busy machine ends it.
    let builder = |url: &&str| LockClient::builder(url).watchdog_lease(SOON.get());
    let clients: Vec<LockClient> = urls
        .iter()
        .map(|url| builder(url).build().unwrap())
        .collect();
    let lock = RedLock::new(&clients, super::NAME);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let counter = redis::Client::open(urls[0]).unwrap();
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
    child::say("done");
}

/// The release is told: nobody sleeps until a lease or a poll is over.
#[test]
fn a_waiter_is_woken_by_the_release() {
    let servers = Servers::start(3);
    let (ours, theirs) = (servers.lock(), servers.lock());
    // Subscriptions are there from now on.
    for _ in 0..2 {
        ours.lock_with(Lease::fixed(SOON.get() * 6)).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                assert!(theirs.try_lock(SOON.get(), Lease::RENEWED).unwrap());
                theirs.unlock().unwrap();
            });
            throughout(millis(300), "it waits", || !waiter.is_finished());
            ours.unlock().unwrap();
            within(SOON.get() / 2, "the wake-up", || waiter.join().unwrap());
        });
    }
}
