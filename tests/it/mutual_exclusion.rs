//! Only one thread at a time is in the critical section.

use std::thread;

use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::{client, unique};

const PROCESSES: usize = 4;
const THREADS: usize = 4;
const TIMES: usize = 20_000;

/// Each increment is a GET and a SET, so a second holder in between would lose one.
#[test]
fn four_processes_of_four_threads_count_to_twenty_thousand() {
    let server = Server::start();
    let (url, lock, counter) = (server.url(), unique("lock"), unique("counter"));
    let times = (TIMES / PROCESSES / THREADS).to_string();
    let arguments = [&url, &lock, &counter, &times].map(String::as_str);
    let children: Vec<Process> = (0..PROCESSES)
        .map(|_| Process::start("increment", &arguments))
        .collect();
    for child in children {
        child.finish();
    }
    let counted: usize = server.ask(redis::cmd("GET").arg(&counter));
    assert_eq!(counted, TIMES);
    let held: bool = server.ask(redis::cmd("EXISTS").arg(&lock));
    assert!(!held);
}

/// The role of each process.
pub fn increment(arguments: &[&str]) {
    let &[url, lock, counter, times] = arguments else {
        panic!("{arguments:?}")
    };
    let times: usize = times.parse().unwrap();
    let client = client(url);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let lock = client.reentrant_lock(lock);
                let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
                for _ in 0..times {
                    let guard = lock.acquire().unwrap();
                    let count: Option<u64> =
                        redis::cmd("GET").arg(counter).query(&mut redis).unwrap();
                    let next = count.unwrap_or(0) + 1;
                    redis::cmd("SET")
                        .arg(counter)
                        .arg(next)
                        .exec(&mut redis)
                        .unwrap();
                    guard.unlock().unwrap();
                }
            });
        }
    });
    assert_eq!(client.stats().lost, 0);
    child::send_line("done");
}
