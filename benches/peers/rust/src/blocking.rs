//! Libraries whose calls block: each worker is a thread.

use std::thread;
use std::time::Duration;

use crate::apart::{self, Apart};
use crate::clock::{now, until};
use crate::section::{Counter, Load, Report, words};
use crate::{Driver, Result};

/// A library with blocking calls.
pub trait Peer: Sync {
    type Lock: Lock;

    /// Makes a handle of a lock. Each thread has its own.
    fn lock(&self, name: &str) -> Self::Lock;
}

pub trait Lock {
    /// Returns when the lock is held, or fails if the library gives up.
    fn lock(&mut self) -> Result<()>;
    fn unlock(&mut self) -> Result<()>;
}

pub struct Threads<P: Peer> {
    /// Makes a client.
    make: fn(&str) -> Result<P>,
    url: String,
    /// The clients, at least one. Only `contend` uses more than the first.
    peers: Vec<P>,
    taken: Option<P::Lock>,
    held: Vec<P::Lock>,
}

impl<P: Peer> Threads<P> {
    pub fn new(make: fn(&str) -> Result<P>, url: &str) -> Result<Self> {
        Ok(Self {
            make,
            url: url.to_owned(),
            peers: vec![make(url)?],
            taken: None,
            held: Vec::new(),
        })
    }
}

/// Repeats a call that gave up.
fn insist(lock: &mut impl Lock) {
    while lock.lock().is_err() {}
}

fn work(lock: &mut impl Lock, load: &Load) -> Result<Report> {
    let counter = Counter::open(&load.counter)?;
    let mut report = Report::default();
    thread::sleep(until(load.start));
    while !load.is_over() {
        let called = now();
        let mut outcome = lock.lock();
        while outcome.is_err() && !load.is_over() {
            report.gave_up += 1;
            outcome = lock.lock();
        }
        report.waited(now() - called);
        if outcome.is_err() {
            break;
        }
        let number = counter.read()?;
        if !load.hold.is_zero() {
            thread::sleep(load.hold);
        }
        counter.write(number + 1)?;
        report.holds += 1;
        report.inside += u64::from(!load.is_over());
        lock.unlock()?;
        if !load.pause.is_zero() {
            thread::sleep(load.pause);
        }
    }
    Ok(report)
}

/// Locks and unlocks until the window ends. The first pair opens connections.
fn pairs(lock: &mut impl Lock, load: &Apart) -> Result<Report> {
    let mut report = Report::default();
    let mut called = None;
    while called.is_none() || !load.is_over() {
        while lock.lock().is_err() {
            report.gave_up += 1;
        }
        lock.unlock()?;
        match called {
            None => {
                report.holds += 1;
                thread::sleep(until(load.start));
            }
            Some(called) => load.add_pair(&mut report, called),
        }
        called = Some(now());
    }
    Ok(report)
}

impl<P: Peer> Driver for Threads<P> {
    fn pairs(&mut self, name: &str, pairs: usize) -> Result<String> {
        let mut lock = self.peers[0].lock(name);
        let mut times = Vec::with_capacity(pairs);
        for _ in 0..pairs {
            let start = now();
            lock.lock()?;
            lock.unlock()?;
            times.push(now() - start);
        }
        Ok(words(&times))
    }

    fn clients(&mut self, count: usize) -> Result<()> {
        while self.peers.len() < count {
            self.peers.push((self.make)(&self.url)?);
        }
        self.peers.truncate(count.max(1));
        Ok(())
    }

    fn contend(&mut self, load: Load) -> Result<String> {
        let load = &load;
        thread::scope(|scope| {
            let work = |peer: &'_ P| work(&mut peer.lock(&load.name), load);
            let peers = self.peers.iter().cycle().take(load.threads);
            let threads: Vec<_> = peers.map(|peer| scope.spawn(move || work(peer))).collect();
            let mut all = Report::default();
            for thread in threads {
                all.add(thread.join().map_err(|_| "a thread panicked")??);
            }
            Ok(all.words())
        })
    }

    fn apart(&mut self, load: Apart) -> Result<String> {
        let (peer, load) = (&self.peers[0], &load);
        thread::scope(|scope| {
            let work = |worker| move || pairs(&mut peer.lock(&load.name(worker)), load);
            let threads: Vec<_> = (0..load.workers)
                .map(|worker| scope.spawn(work(worker)))
                .collect();
            let mut reports = Vec::new();
            for thread in threads {
                reports.push(thread.join().map_err(|_| "a thread panicked")??);
            }
            Ok(apart::words(reports))
        })
    }

    fn take(&mut self, name: &str) -> Result<()> {
        insist(self.taken.insert(self.peers[0].lock(name)));
        Ok(())
    }

    fn give(&mut self, after_micros: u64) -> Result<String> {
        let mut lock = self.taken.take().ok_or("no lock is taken")?;
        thread::sleep(Duration::from_micros(after_micros));
        let unlocking = now();
        lock.unlock()?;
        Ok(words(&[unlocking]))
    }

    fn enter(&mut self, name: &str) -> Result<String> {
        let mut lock = self.peers[0].lock(name);
        let called = now();
        insist(&mut lock);
        let granted = now();
        lock.unlock()?;
        Ok(words(&[called, granted]))
    }

    fn hold(&mut self, prefix: &str, locks: usize) -> Result<()> {
        for number in 0..locks {
            let mut lock = self.peers[0].lock(&format!("{prefix}:{number}"));
            lock.lock()?;
            self.held.push(lock);
        }
        Ok(())
    }
}
