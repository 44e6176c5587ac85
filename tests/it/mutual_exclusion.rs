//! Only one thread at a time is in the critical section, whichever processes the threads are in.

use crate::support::prelude::*;
use crate::support::{connect, run};

const PROCESSES: usize = 4;
const THREADS: usize = 4;

/// How often the threads increment a plain number.
const TIMES: usize = 20_000;

/// The key of the number, which no server of the locks has.
const COUNTER: &str = "counter";
/// While this key is missing, the threads continue.
const IS_ENOUGH: &str = "enough";
/// The number of increments of all threads, added up without a lock.
const MADE: &str = "made";

/// The time that two servers hang. It is not scaled for a slow machine, so that calls do not wait
/// longer.
const PAUSE: Duration = Duration::from_millis(300);

/// Threads of several processes increment one number while `work` runs, and at least `times` times.
fn count_under(kind: &str, servers: &[Server], times: usize, work: impl FnOnce()) {
    let counter = Server::start();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let (urls, counter_url) = (urls.join(" "), counter.url());
    within(SOON.get() * 6, "all of them", || {
        let start = |_| Process::start("increment", &[kind, &urls, &counter_url]);
        let processes: Vec<Process> = (0..PROCESSES).map(start).collect();
        work();
        let counted = || counter.ask::<Option<usize>>(redis::cmd("GET").arg(COUNTER));
        while counted() < Some(times) {
            thread::sleep(millis(5));
        }
        counter.run(&format!("SET {IS_ENOUGH} 1"));
        for process in processes {
            process.finish();
        }
    });
    let [counted, made]: [usize; 2] = counter.ask(redis::cmd("MGET").arg(&[COUNTER, MADE]));
    assert_eq!(counted, made);
    eventually("the locks to be free", || {
        servers.iter().all(|server| server.size() == 0)
    });
}

#[test]
fn four_processes_of_four_threads_count_to_twenty_thousand() {
    count_under("plain", &[Server::start()], TIMES, || {});
}

/// Each server is one of two that hang for a while, in turn.
#[test]
fn processes_lose_no_increment_under_a_majority_while_servers_hang_in_turn() {
    let servers = Server::start_all((0..5).map(|_| Server::options()).collect());
    count_under("majority", &servers, TIMES / 100, || {
        for round in 0..servers.len() {
            let two = [&servers[round], &servers[(round + 1) % servers.len()]];
            two.iter().for_each(|server| server.pause());
            thread::sleep(PAUSE);
            two.iter().for_each(|server| server.resume());
            thread::sleep(PAUSE / 6);
        }
    });
}

fn lock(kind: &str, clients: &[LockClient]) -> Box<dyn Lock> {
    match kind {
        "plain" => Box::new(clients[0].reentrant_lock("lock")),
        _ => Box::new(RedLock::new(clients, "lock")),
    }
}

/// The role of each process: increments by GET and SET, so a second holder in between would lose
/// one.
pub fn increment(arguments: &[&str]) {
    let [kind, urls, counter] = child::named(arguments);
    // Long enough that no stall of a busy machine ends it.
    let client = |url| {
        let builder = LockClient::builder(url).watchdog_lease(SOON.get());
        builder.command_timeout(millis(1_000)).build().unwrap()
    };
    let clients: Vec<LockClient> = urls.split(' ').map(client).collect();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let lock = lock(kind, &clients);
            scope.spawn(move || {
                let mut redis = connect(counter);
                let get = |redis: &mut Connection, key: &str| -> Option<usize> {
                    redis::cmd("GET").arg(key).query(redis).unwrap()
                };
                let mut made = 0;
                while get(&mut redis, IS_ENOUGH).is_none() {
                    let guard = lock.acquire().unwrap();
                    let count = get(&mut redis, COUNTER).unwrap_or(0) + 1;
                    run(&mut redis, &format!("SET {COUNTER} {count}"));
                    guard.unlock().unwrap();
                    made += 1;
                }
                run(&mut redis, &format!("INCRBY {MADE} {made}"));
            });
        }
    });
    assert!(clients.iter().all(|client| client.stats().lost == 0));
    child::send_line("done");
}
