//! Libraries for `tokio`: each worker is a task of a runtime with its default settings.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::apart::{self, Apart};
use crate::clock::{now, until};
use crate::section::{Counter, Load, Report, words};
use crate::{Driver, Result};

/// A library whose calls are futures.
pub trait Peer: Send + Sync + 'static {
    type Lock: Lock;

    /// If the library does not renew locks itself, the time after which a lock needs it.
    const RENEW_AFTER: Option<Duration> = None;

    /// Makes a handle of a lock. Each task has its own.
    fn lock(&self, name: &str) -> Self::Lock;

    /// A handle of a lock that is held for longer than its first lease.
    fn long_lock(&self, name: &str) -> Self::Lock {
        self.lock(name)
    }
}

pub trait Lock: Send + 'static {
    /// Returns when the lock is held, or fails if the library gives up.
    fn lock(&mut self) -> impl Future<Output = Result<()>> + Send;
    fn unlock(&mut self) -> impl Future<Output = Result<()>> + Send;
    /// Extends the lease, in a library that does not do so itself.
    fn renew(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

type Make<P> = Box<dyn Fn(&Runtime, &str) -> Result<P>>;

pub struct Tasks<P: Peer> {
    runtime: Runtime,
    /// Makes a client in the runtime.
    make: Make<P>,
    url: String,
    /// The clients, at least one. Only `contend` uses more than the first.
    peers: Vec<Arc<P>>,
    taken: Option<P::Lock>,
}

impl<P: Peer> Tasks<P> {
    pub fn new(make: impl AsyncFn(&str) -> Result<P> + 'static, url: &str) -> Result<Self> {
        let mut tasks = Self {
            runtime: Runtime::new()?,
            make: Box::new(move |runtime, url| runtime.block_on(make(url))),
            url: url.to_owned(),
            peers: Vec::new(),
            taken: None,
        };
        tasks.clients(1)?;
        Ok(tasks)
    }

    /// Runs a future as a task, and waits for it.
    fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.runtime.block_on(self.runtime.spawn(task))?
    }
}

/// Repeats a call that gave up.
async fn insist(lock: &mut impl Lock) {
    while lock.lock().await.is_err() {}
}

async fn work(mut lock: impl Lock, load: Arc<Load>) -> Result<Report> {
    let counter = Counter::open(&load.counter)?;
    let mut report = Report::default();
    sleep(until(load.start)).await;
    while !load.is_over() {
        let called = now();
        let mut outcome = lock.lock().await;
        while outcome.is_err() && !load.is_over() {
            report.gave_up += 1;
            outcome = lock.lock().await;
        }
        report.waited(now() - called);
        if outcome.is_err() {
            break;
        }
        let number = counter.read()?;
        if !load.hold.is_zero() {
            sleep(load.hold).await;
        }
        counter.write(number + 1)?;
        report.holds += 1;
        report.inside += u64::from(!load.is_over());
        lock.unlock().await?;
        if !load.pause.is_zero() {
            sleep(load.pause).await;
        }
    }
    Ok(report)
}

/// Locks and unlocks until the window ends. The first pair opens connections.
async fn pairs(mut lock: impl Lock, load: Arc<Apart>) -> Result<Report> {
    let mut report = Report::default();
    let mut called = None;
    while called.is_none() || !load.is_over() {
        while lock.lock().await.is_err() {
            report.gave_up += 1;
        }
        lock.unlock().await?;
        match called {
            None => {
                report.holds += 1;
                sleep(until(load.start)).await;
            }
            Some(called) => load.add_pair(&mut report, called),
        }
        called = Some(now());
    }
    Ok(report)
}

impl<P: Peer> Driver for Tasks<P> {
    fn pairs(&mut self, name: &str, pairs: usize) -> Result<String> {
        let mut lock = self.peers[0].lock(name);
        self.run(async move {
            let mut times = Vec::with_capacity(pairs);
            for _ in 0..pairs {
                let start = now();
                lock.lock().await?;
                lock.unlock().await?;
                times.push(now() - start);
            }
            Ok(words(&times))
        })
    }

    fn clients(&mut self, count: usize) -> Result<()> {
        while self.peers.len() < count {
            let peer = (self.make)(&self.runtime, &self.url)?;
            self.peers.push(Arc::new(peer));
        }
        self.peers.truncate(count.max(1));
        Ok(())
    }

    fn contend(&mut self, load: Load) -> Result<String> {
        let (peers, load) = (self.peers.clone(), Arc::new(load));
        self.run(async move {
            let work = |peer: &Arc<P>| tokio::spawn(work(peer.lock(&load.name), Arc::clone(&load)));
            let peers = peers.iter().cycle().take(load.threads);
            let tasks: Vec<_> = peers.map(work).collect();
            let mut all = Report::default();
            for task in tasks {
                all.add(task.await??);
            }
            Ok(all.words())
        })
    }

    fn apart(&mut self, load: Apart) -> Result<String> {
        let (peer, load) = (Arc::clone(&self.peers[0]), Arc::new(load));
        self.run(async move {
            let work = |worker| {
                let lock = peer.lock(&load.name(worker));
                tokio::spawn(pairs(lock, Arc::clone(&load)))
            };
            let tasks: Vec<_> = (0..load.workers).map(work).collect();
            let mut reports = Vec::new();
            for task in tasks {
                reports.push(task.await??);
            }
            Ok(apart::words(reports))
        })
    }

    fn take(&mut self, name: &str) -> Result<()> {
        let mut lock = self.peers[0].lock(name);
        self.taken = Some(self.run(async move {
            insist(&mut lock).await;
            Ok(lock)
        })?);
        Ok(())
    }

    fn give(&mut self, after_micros: u64) -> Result<String> {
        let mut lock = self.taken.take().ok_or("no lock is taken")?;
        self.run(async move {
            sleep(Duration::from_micros(after_micros)).await;
            let unlocking = now();
            lock.unlock().await?;
            Ok(words(&[unlocking]))
        })
    }

    fn enter(&mut self, name: &str) -> Result<String> {
        let mut lock = self.peers[0].lock(name);
        self.run(async move {
            let called = now();
            insist(&mut lock).await;
            let granted = now();
            lock.unlock().await?;
            Ok(words(&[called, granted]))
        })
    }

    fn hold(&mut self, prefix: &str, locks: usize) -> Result<()> {
        let handle = |number| self.peers[0].long_lock(&format!("{prefix}:{number}"));
        let mut handles: Vec<_> = (0..locks).map(handle).collect();
        let held = self.run(async move {
            for lock in &mut handles {
                lock.lock().await?;
            }
            Ok(handles)
        })?;
        self.runtime.spawn(keep(held, P::RENEW_AFTER));
        Ok(())
    }
}

/// Holds the locks until this process ends.
async fn keep<L: Lock>(mut held: Vec<L>, renew_after: Option<Duration>) {
    match renew_after {
        None => std::future::pending().await,
        Some(pause) => loop {
            sleep(pause).await;
            for lock in &mut held {
                lock.renew().await;
            }
        },
    }
}
