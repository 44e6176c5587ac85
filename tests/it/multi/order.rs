//! No deadlock, whatever the order of the names.

use std::thread;

use crate::support::child::{self, Process};
use crate::support::client;
use crate::support::server::Server;
use crate::support::timing::{SOON, within};

const PROCESSES: usize = 2;
const THREADS: usize = 4;
const TIMES: usize = 25;

/// Two processes of four threads, each with its own order of the names. What the three locks
/// protect is done by one thread at a time.
#[test]
fn threads_and_processes_take_the_names_in_any_order() {
    let server = Server::start();
    within(SOON.get() * 6, "all of them", || {
        let children: Vec<Process> = (0..PROCESSES)
            .map(|process| Process::start("take_in_order", &[&server.url(), &process.to_string()]))
            .collect();
        for child in children {
            child.finish();
        }
    });
    let counted: usize = server.ask(redis::cmd("GET").arg("counter"));
    assert_eq!(counted, PROCESSES * THREADS * TIMES);
    server.ask::<()>(redis::cmd("DEL").arg("counter"));
    assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 0);
}

/// The role of each process.
pub fn take_in_order(arguments: &[&str]) {
    let &[url, process] = arguments else {
        panic!("{arguments:?}")
    };
    let process: usize = process.parse().unwrap();
    let client = client(url);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                let mut names = ["a", "b", "c"];
                names.rotate_left(thread % 3);
                if process == 1 {
                    names.reverse();
                }
                let lock = client.multi_lock(names);
                let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
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
