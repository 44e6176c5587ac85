//! Mutual exclusion between processes on a majority, and every thread gets the lock.

use std::thread;
use std::time::Duration;

use leasehold::{LockClient, RedLock};

use super::Servers;
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually, millis, within};

const PROCESSES: usize = 4;
const THREADS: usize = 4;
/// How often each thread increments the number at least.
const TIMES: usize = 20;

/// A key beside the counter. While it is missing, the threads continue.
const IS_ENOUGH: &str = "enough";
/// The number of increments of all threads, added up without a lock.
const MADE: &str = "made";

/// The time that two servers hang. It is not scaled for a slow machine, so that calls do not wait
/// longer.
const PAUSE: Duration = Duration::from_millis(300);

/// All processes increment one number. Each server is one of two that hang for a while, in turn.
#[test]
fn four_processes_of_four_threads_lose_no_increment_while_servers_hang_in_turn() {
    const ROUNDS: usize = 5;
    let (servers, counter) = (Servers::start(5), Server::start());
    let urls: Vec<String> = servers.0.iter().map(Server::url).collect();
    let (urls, counter_url) = (urls.join(" "), counter.url());
    within(SOON.get() * 6, "all of them", || {
        let start = |_| Process::start("share_majority", &[&urls, &counter_url]);
        let mut children: Vec<Process> = (0..PROCESSES).map(start).collect();
        let mut round = 0;
        while !children.iter_mut().all(Process::is_over) {
            let two = [&servers.0[round % 5], &servers.0[(round + 1) % 5]];
            two.iter().for_each(|server| server.pause());
            thread::sleep(PAUSE);
            two.iter().for_each(|server| server.resume());
            thread::sleep(PAUSE / 6);
            round += 1;
            if round == ROUNDS {
                counter.run(&format!("SET {IS_ENOUGH} 1"));
            }
        }
        assert!(round >= ROUNDS, "the processes have ended before");
        for child in children {
            child.finish();
        }
    });
    let [counted, made]: [usize; 2] = counter.ask(redis::cmd("MGET").arg(&["counter", MADE]));
    assert_eq!(counted, made);
    assert!(made >= PROCESSES * THREADS * TIMES, "{made}");
    eventually("the lock to be free", || servers.held() == 0);
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
                let mut made = 0;
                let mut is_enough = false;
                while made < TIMES || !is_enough {
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
                    made += 1;
                    is_enough = redis::cmd("EXISTS")
                        .arg(IS_ENOUGH)
                        .query(&mut redis)
                        .unwrap();
                }
                let mut add = redis::cmd("INCRBY");
                add.arg(MADE).arg(made).exec(&mut redis).unwrap();
            });
        }
    });
    child::send_line("done");
}
