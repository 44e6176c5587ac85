//! Permits of several processes, one of which is killed.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::LockClient;

use super::counts;
use super::view::View;
use crate::faults::deployment;
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, eventually, throughout};
use crate::support::{client, unique};

/// The role: threads that share permits. In work they add themselves to a set in Redis, by their
/// own connections, and report the largest number of members that they saw.
pub fn share_permits(arguments: &[&str]) {
    let &[target, url, name, threads, turns] = arguments else {
        panic!("{arguments:?}")
    };
    let [threads, turns] = [threads, turns].map(|number| number.parse::<usize>().unwrap());
    let client = deployment::builder_of(target).build().unwrap();
    let semaphore = client.leased_semaphore(name);
    let workers = format!("workers:{name}");
    let most = thread::scope(|scope| {
        let working: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let redis = redis::Client::open(url).unwrap();
                    let mut redis = redis.get_connection().unwrap();
                    let mut most = 0;
                    for _ in 0..turns {
                        let guard = semaphore.acquire().unwrap();
                        let mut work = redis::pipe();
                        work.cmd("SADD").arg(&workers).arg(guard.id()).ignore();
                        work.cmd("SCARD").arg(&workers);
                        let (now,): (u64,) = work.query(&mut redis).unwrap();
                        most = most.max(now);
                        guard.check().unwrap();
                        let id = guard.id().to_owned();
                        redis::cmd("SREM")
                            .arg(&workers)
                            .arg(id)
                            .exec(&mut redis)
                            .unwrap();
                        guard.release().unwrap();
                    }
                    most
                })
            })
            .collect();
        working
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .max()
    });
    child::send_line(most.unwrap());
}

fn start(url: &str, name: &str, threads: u32, turns: u32) -> Process {
    let arguments = [url, url, name, &threads.to_string(), &turns.to_string()];
    Process::start("share_permits", &arguments)
}

fn set_permits(client: &LockClient, name: &str, permits: u32) {
    client
        .leased_semaphore(name)
        .try_set_permits(permits)
        .unwrap();
}

#[test]
fn processes_share_k_permits() {
    const K: u32 = 3;
    let server = Server::start();
    let name = unique("processes");
    let client = client(&server.url());
    set_permits(&client, &name, K);
    let processes = [(); 3].map(|()| start(&server.url(), &name, 3, 60));
    let most = processes.map(|process| process.finish()[0].parse::<u32>().unwrap());
    assert!(most.iter().all(|&most| most <= K), "{most:?}");
    assert!(most.contains(&K), "{most:?}: not all permits were used");
    assert_eq!(counts(&client.leased_semaphore(&name)), (3, 3));
}

/// The permits of a process that lives are renewed; when it is killed, they come back when their
/// leases end.
#[test]
fn a_killed_process_frees_its_permits_within_a_lease() {
    let server = Server::start();
    let name = unique("killed");
    let client = client(&server.url());
    set_permits(&client, &name, 2);
    let semaphore = client.leased_semaphore(&name);
    let mut process = Process::start("hold_permits", &[&server.url(), &name, "2"]);
    assert_eq!(process.read_line(), "held");
    throughout(LEASE.get() * 2, "held by a process that lives", || {
        semaphore.try_acquire_now().unwrap().is_none()
    });
    // Stopped first, so that the remaining lease is read at the moment of death.
    process.pause();
    let stopped = Instant::now();
    let mut view = View::of(&server, &name);
    let now = view.clock();
    let left = |(_, ends): &(String, f64)| Duration::from_millis((ends - now) as u64);
    let left: Vec<Duration> = view.leases().iter().map(left).collect();
    assert_eq!(left.len(), 2);
    process.kill();
    let guards = [(); 2].map(|()| (semaphore.acquire().unwrap(), stopped.elapsed()));
    for ((guard, took), left) in guards.into_iter().zip(left) {
        assert!(
            took + SLIP.get() >= left,
            "{left:?} was cut short: {took:?}"
        );
        assert!(
            took <= left + SLIP.get(),
            "{took:?}, and {left:?} were left"
        );
        guard.release().unwrap();
    }
    assert_eq!(counts(&semaphore), (2, 2));
}

/// The role: holds permits.
pub fn hold_permits(arguments: &[&str]) {
    let &[target, name, permits] = arguments else {
        panic!("{arguments:?}")
    };
    let client = deployment::builder_of(target).build().unwrap();
    let semaphore = client.leased_semaphore(name);
    let permits: usize = permits.parse().unwrap();
    let guards: Vec<_> = (0..permits).map(|_| semaphore.acquire().unwrap()).collect();
    child::send_line("held");
    child::read_line();
    drop(guards);
}

/// A process is killed at a random moment of requesting, waiting, acquiring and releasing.
#[test]
fn a_process_killed_at_any_moment_keeps_no_permit_for_longer_than_a_lease() {
    let server = Server::start();
    let name = unique("killed");
    let client = client(&server.url());
    set_permits(&client, &name, 2);
    let semaphore = client.leased_semaphore(&name);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..4 {
        let mut process = start(&server.url(), &name, 4, u32::MAX);
        let mut view = View::of(&server, &name);
        eventually("it to work", || view.available() == Some(0));
        thread::sleep(Duration::from_micros(random.u64(0..20_000)));
        process.kill();
        let killed = Instant::now();
        let guards = [(); 2].map(|()| semaphore.acquire().unwrap());
        let took = killed.elapsed();
        assert!(took <= LEASE.get() + SLIP.get(), "{took:?}");
        drop(guards);
        assert_eq!(counts(&semaphore), (2, 2));
    }
}
