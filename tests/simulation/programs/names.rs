//! Threads that want several names together, beside threads that want one of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold::{Error, Lease, LockClient, LockGuard, Result};

use super::held::{Part, exclusive, unlock, vouch};
use crate::args::Args;
use crate::clock;
use crate::kind::Kind;
use crate::worker_thread::{Hold, MAX_DEPTH, WorkerThread, nanos};

/// For how long a thread keeps a name for which threads wait that want several.
const LONG: Duration = Duration::from_secs(5);

pub fn adapt(args: &mut Args) {
    (args.kind, args.locks) = (Some(Kind::Reentrant), args.locks.max(2));
}

pub fn run(client: &LockClient, thread: WorkerThread<'_>) {
    let mut names = Names { client, thread };
    // Of two workers, one keeps names for long. With more, a client that wants one name waits
    // behind clients that want several.
    let keeps = names.thread.args.processes == 2 && names.thread.args.lingers;
    while !names.thread.stop.load(Ordering::Relaxed) {
        match names.thread.random.u8(0..8) {
            _ if keeps => names.one_for_long(),
            0..4 => names.thread.round(),
            4 => names.several_within_one(),
            _ => names.several(None),
        }
    }
}

struct Names<'a> {
    client: &'a LockClient,
    thread: WorkerThread<'a>,
}

impl Names<'_> {
    /// Acquires some names, holds them, and releases them; within the hold of one of them, if there
    /// is one.
    fn several(&mut self, outer: Option<Hold>) {
        let mut locks: Vec<u32> = (0..self.thread.args.locks).collect();
        self.thread.random.shuffle(&mut locks);
        if let Some(outer) = outer {
            locks.sort_by_key(|lock| *lock != outer.at.lock);
        }
        let count = self.thread.random.usize(2..=3);
        locks.truncate(count);
        if let Some((parts, guard)) = self.take(&locks, outer) {
            self.work(&parts, &guard);
            unlock(&mut self.thread, &parts, guard);
        }
    }

    /// Meanwhile threads that want this name and others leave the others to those that want them.
    fn one_for_long(&mut self) {
        let at = exclusive(self.thread.random.u32(0..self.thread.args.locks));
        let log = &mut self.thread.event_log;
        let call = log.asks(at, None, "lock_with".into());
        let result = self.thread.tested(at).lock_with(at.access, Lease::RENEWED);
        let Some((call, style)) = self.thread.log_result(call, None, result.map(Some), false)
        else {
            return;
        };
        let until = clock::now() + nanos(LONG);
        while style.is_valid(self.thread.tested(at)) {
            let now = clock::now();
            self.thread.event_log.vouches(call, now);
            if now >= until || self.thread.stop.load(Ordering::Relaxed) {
                break;
            }
            self.thread.idle(Duration::from_millis(20));
        }
        let hold = Hold {
            at,
            call,
            depth: MAX_DEPTH,
        };
        self.thread.release(hold, style);
        self.thread.idle(LONG / 2);
    }

    fn several_within_one(&mut self) {
        let lock = self.thread.random.u32(0..self.thread.args.locks);
        let at = exclusive(lock);
        if let Some((call, style)) = self.thread.take(at, None) {
            let depth = MAX_DEPTH;
            let hold = Hold { at, call, depth };
            self.thread.work(hold, &style);
            // In the thread of an owned guard, the call for several names would wait for the guard.
            if style.nests() {
                self.several(Some(hold));
            }
            self.thread.release(hold, style);
        }
    }

    /// A thread that has a name already waits for a time only: two such threads can wait for each
    /// other.
    fn take(&mut self, locks: &[u32], outer: Option<Hold>) -> Option<(Vec<Part>, LockGuard)> {
        let lock = self
            .client
            .multi_lock(locks.iter().map(|lock| Args::key(*lock)));
        let (wait, lease) = (self.thread.wait(), self.thread.lease());
        let waits = outer.is_none() && self.thread.random.bool();
        let budget = (!waits).then(|| self.thread.budget_to_try(wait));
        let what = match waits {
            true => format!("acquire_with {lease:?} of {locks:?}"),
            false => format!("try_acquire {wait:?} {lease:?} of {locks:?}"),
        };
        let parts = self.thread.event_log.asks_together(locks, budget, &what);
        let result = match waits {
            true => lock.acquire_with(lease).map(Some),
            false => lock.try_acquire(wait, lease),
        };
        self.log_result(parts, outer, result)
    }

    fn log_result(
        &self,
        parts: Vec<Part>,
        outer: Option<Hold>,
        result: Result<Option<LockGuard>>,
    ) -> Option<(Vec<Part>, LockGuard)> {
        let log = &self.thread.event_log;
        let mut held = Vec::new();
        for (lock, call) in parts {
            let same = outer.filter(|outer| outer.at.lock == lock);
            match &result {
                Ok(Some(_)) => {
                    let outer = same.map(|outer| outer.call);
                    log.has(call, outer, None);
                    held.push((lock, outer.unwrap_or(call)));
                }
                Ok(None) => log.answered(call, "held by another"),
                Err(error) => {
                    let is_lost = matches!(error, Error::Lost { .. });
                    log.failed(call, error, is_lost && outer.is_some());
                }
            }
        }
        Some((held, result.ok()??))
    }

    /// Checks the hold repeatedly, and sometimes acquires one of the names again.
    fn work(&mut self, parts: &[Part], guard: &LockGuard) {
        let until = clock::now() + nanos(self.thread.hold_time(1));
        loop {
            if !vouch(&self.thread, parts, guard) || clock::now() >= until {
                return;
            }
            match self.thread.random.u8(..) {
                0..16 => self.one_within_several(parts),
                _ => self.thread.idle(Duration::from_millis(3)),
            }
        }
    }

    fn one_within_several(&mut self, parts: &[Part]) {
        let (lock, call) = parts[self.thread.random.usize(0..parts.len())];
        let (at, depth) = (exclusive(lock), MAX_DEPTH);
        if let Some((_, style)) = self.thread.take(at, Some(call)) {
            let hold = Hold { at, call, depth };
            self.thread.work(hold, &style);
            self.thread.release(hold, style);
        }
    }
}
