//! Every third reply of every server is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease, LockClient, LockGuard, RedLock};

use super::Servers;
use crate::support::builder;
use crate::support::proxy::{self, Fault, Proxy};
use crate::support::timing::{LEASE, eventually, millis};

const CLIENTS: usize = 2;
const THREADS: usize = 8;
const STEPS: usize = 40;
const DEEPEST: usize = 3;

/// Long enough that nothing is renewed, so that no lock can be lost.
fn lease() -> Duration {
    LEASE.get() * 10
}

/// The cost of each lost reply.
const TIMEOUT: u64 = 100;

/// `LEASEHOLD_SEED` if that is set. Shown when the test fails.
fn seed() -> u64 {
    let seed = std::env::var("LEASEHOLD_SEED").ok();
    let seed = seed.map_or_else(
        || fastrand::u64(..),
        |seed| seed.parse().expect("LEASEHOLD_SEED is a number"),
    );
    println!("LEASEHOLD_SEED={seed}");
    seed
}

/// Loses one reply of three, of all scripts.
fn lose_one_of_three(proxy: &Proxy, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    proxy.on_request(move |request| {
        if request.script().is_some() && random.u32(..3) == 0 {
            return Fault::SwallowReply;
        }
        Fault::Pass
    });
}

/// The state of one thread: a lock, and the holder as the process itself counts.
struct Worker<'a> {
    lock: RedLock,
    id: u64,
    inside: &'a AtomicU64,
    servers: &'a Servers,
    random: fastrand::Rng,
    levels: Vec<Option<LockGuard>>,
    /// The number of holds.
    holds: usize,
}

impl Worker<'_> {
    fn run(mut self) -> usize {
        for _ in 0..STEPS {
            self.step(DEEPEST);
        }
        while !self.levels.is_empty() {
            self.step(0);
        }
        self.holds
    }

    fn step(&mut self, deepest: usize) {
        let acquire_level =
            self.levels.len() < deepest && (self.levels.is_empty() || self.random.bool());
        let answered = if acquire_level {
            self.acquire_level()
        } else {
            self.release_level()
        };
        let count = u32::try_from(self.levels.len()).expect("a few");
        assert_eq!(self.lock.hold_count(), count);
        if answered && count > 0 {
            let counts = self.servers.counts_of(self.lock.name());
            let agree = counts.iter().filter(|&&one| one > 0).count();
            assert!(agree >= 3, "{counts:?} after a clear reply of {count}");
        }
    }

    /// Returns whether there was a clear reply. No wait is unlimited, so that a failure is no hang.
    fn acquire_level(&mut self) -> bool {
        let wait = if self.random.bool() {
            Duration::ZERO
        } else {
            millis(TIMEOUT * 3)
        };
        let result = if self.random.bool() {
            let taken = self.lock.try_lock(wait, Lease::RENEWED);
            taken.map(|taken| taken.then_some(None))
        } else {
            let guard = self.lock.try_acquire(wait, Lease::RENEWED);
            guard.map(|guard| guard.map(Some))
        };
        match result {
            Ok(Some(level)) => {
                if self.levels.is_empty() {
                    let before = self.inside.swap(self.id, Ordering::SeqCst);
                    assert_eq!(before, 0, "two holders of {}", self.lock.name());
                    self.holds += 1;
                }
                self.levels.push(level);
                true
            }
            Ok(None) => {
                assert!(self.levels.is_empty(), "a nested call does not wait");
                false
            }
            Err(Error::Unavailable { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn release_level(&mut self) -> bool {
        let level = self.levels.pop().expect("a level");
        if self.levels.is_empty() {
            let before = self.inside.swap(0, Ordering::SeqCst);
            assert_eq!(before, self.id, "two holders of {}", self.lock.name());
        }
        let result = match level {
            None => self.lock.unlock(),
            Some(guard) => guard.unlock(),
        };
        match result {
            Ok(()) => true,
            Err(Error::NotReleased { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Threads of two clients nest, some with their own name and some with a shared one.
#[test]
#[ignore = "soak"]
fn with_every_third_reply_lost_a_majority_agrees_on_one_holder() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let servers = Servers::start(5);
    let proxies: Vec<Proxy> = servers
        .0
        .iter()
        .map(|server| proxy::before(&server.address()))
        .collect();
    let client = |proxy: &Proxy| {
        let builder = builder(&proxy.url()).watchdog_lease(lease());
        builder.command_timeout(millis(TIMEOUT)).build().unwrap()
    };
    let clients: Vec<Vec<LockClient>> = (0..CLIENTS)
        .map(|_| proxies.iter().map(client).collect())
        .collect();
    for proxy in &proxies {
        lose_one_of_three(proxy, random.u64(..));
    }
    let insides: Vec<AtomicU64> = (0..=THREADS).map(|_| AtomicU64::new(0)).collect();
    let holds: Vec<usize> = thread::scope(|scope| {
        let mut run = |thread: usize| {
            // Half of each client's threads use the shared name.
            let name = if thread < THREADS / 2 {
                thread
            } else {
                THREADS
            };
            let lock = RedLock::new(&clients[thread % CLIENTS], &format!("lock{name}"));
            let (inside, servers, random) = (&insides[name], &servers, random.fork());
            scope.spawn(move || {
                let worker = Worker {
                    lock,
                    id: thread as u64 + 1,
                    inside,
                    servers,
                    random,
                    levels: Vec::new(),
                    holds: 0,
                };
                worker.run()
            })
        };
        let workers: Vec<_> = (0..THREADS).map(&mut run).collect();
        let workers = workers.into_iter();
        workers
            .map(|worker| worker.join().expect("no panic"))
            .collect()
    });
    println!("{holds:?} holds");
    assert!(
        holds[..THREADS / 2].iter().all(|&holds| holds > 0),
        "{holds:?}"
    );
    proxies.iter().for_each(|proxy| proxy.clear_rules());
    // Before any lease could end.
    eventually("every lock to be gone", || {
        let left = |server: &crate::support::server::Server| server.size();
        servers.0.iter().map(left).sum::<usize>() == 0
    });
    for client in clients.iter().flatten() {
        assert_eq!(client.stats().lost, 0);
    }
}
