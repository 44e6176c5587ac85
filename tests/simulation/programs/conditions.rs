//! Bounded buffers that all processes share: threads wait until a buffer is not full or not empty,
//! and notify each other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Condition, Error, Interrupt, LockClient, LockGuard, ReentrantLock, Result};

use super::held::{exclusive, unlock, vouch};
use crate::args::Args;
use crate::kind::Kind;
use crate::log::Event;
use crate::worker_thread::WorkerThread;

/// How many items a buffer has room for.
const ROOM: u32 = 2;

/// The most locks.
const LOCKS: u32 = 3;

/// The number of items of each buffer, which its lock protects.
static ITEMS: [AtomicU32; LOCKS as usize] = [const { AtomicU32::new(0) }; LOCKS as usize];

/// What a thread waits for: the numbers of the conditions.
const NOT_FULL: u32 = 0;
const NOT_EMPTY: u32 = 1;

pub fn adapt(args: &mut Args) {
    (args.kind, args.locks) = (Some(Kind::Reentrant), args.locks.min(LOCKS));
    args.processes = args.processes.max(2);
}

pub fn run(client: &LockClient, thread: WorkerThread<'static>) {
    let locks = (0..thread.args.locks).map(|lock| client.reentrant_lock(&Args::key(lock)));
    let mut buffers = Buffers {
        locks: locks.collect(),
        interrupt: Interrupt::new(),
        thread,
    };
    let (stop, interrupt) = (buffers.thread.stop, buffers.interrupt.clone());
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        interrupt.interrupt();
    });
    while !stop.load(Ordering::Relaxed) {
        buffers.use_one();
        buffers.thread.idle(Duration::from_millis(10));
    }
}

struct Buffers {
    locks: Vec<ReentrantLock>,
    /// Ends the waits when the worker is asked to stop.
    interrupt: Interrupt,
    thread: WorkerThread<'static>,
}

impl Buffers {
    /// Adds an item to a buffer, or takes one from it.
    fn use_one(&mut self) {
        let lock = self.thread.random.u32(0..self.thread.args.locks);
        let at = exclusive(lock);
        let lease = self.thread.lease();
        let what = format!("acquire_with {lease:?}");
        let mut call = self.thread.event_log.asks(at, None, what);
        let guard = match self.locks[lock as usize].acquire_with(lease) {
            Ok(guard) => guard,
            Err(error) => return self.thread.event_log.failed(call, &error, false),
        };
        self.thread.event_log.has(call, None, None);
        let nested = self
            .thread
            .random
            .bool()
            .then(|| self.locks[lock as usize].acquire());
        let nested = nested.transpose().ok().flatten();
        let adds = self.thread.random.bool();
        let (wanted, other) = match adds {
            true => (NOT_FULL, NOT_EMPTY),
            false => (NOT_EMPTY, NOT_FULL),
        };
        let items = &ITEMS[lock as usize];
        while vouch(&self.thread, &[(lock, call)], &guard) {
            let count = items.load(Ordering::Relaxed);
            if if adds { count < ROOM } else { count > 0 } {
                self.thread.idle(Duration::from_millis(2));
                items.store(if adds { count + 1 } else { count - 1 }, Ordering::Relaxed);
                self.notify(lock, other);
                break;
            }
            match self.wait(lock, wanted) {
                Some(again) => call = again,
                None => return self.drop_all(lock, guard, nested),
            }
            if self.thread.stop.load(Ordering::Relaxed) || self.thread.random.u8(0..8) == 0 {
                break;
            }
        }
        drop(nested);
        unlock(&mut self.thread, &[(lock, call)], guard);
    }

    /// Waits for a notification. Returns the number of the call with which the thread has the lock
    /// again. The first thread of a process never waits without a limit, so some thread goes on.
    fn wait(&mut self, lock: u32, condition: u32) -> Option<u64> {
        let is_limited = self.thread.thread == 1 || self.thread.random.bool();
        let wait = self.thread.wait();
        let what = match is_limited {
            true => format!("wait_for {wait:?}"),
            false => "wait".into(),
        };
        let within = is_limited.then_some(wait);
        let log = &mut self.thread.event_log;
        let call = log.asks_to_wait(exclusive(lock), condition, within, what);
        let condition = condition_of(&self.locks[lock as usize], condition);
        let result = match is_limited {
            true => condition.wait_for_interruptibly(wait, &self.interrupt),
            false => condition.wait_interruptibly(&self.interrupt).map(|()| true),
        };
        self.has_again(call, result)
    }

    fn has_again(&self, call: u64, result: Result<bool>) -> Option<u64> {
        let log = &self.thread.event_log;
        let is_notified = match result {
            Err(Error::Interrupted { .. }) if self.thread.stop.load(Ordering::Relaxed) => true,
            Err(error) => {
                log.failed(call, &error, matches!(error, Error::Lost { .. }));
                return None;
            }
            Ok(is_notified) => is_notified,
        };
        log.has(call, None, None);
        if !is_notified {
            log.note(Event::NotNotified { call });
        }
        Some(call)
    }

    fn notify(&mut self, lock: u32, number: u32) {
        let all = self.thread.random.u8(0..4) == 0;
        let what = if all { "notify_all" } else { "notify_one" };
        let budget = self.thread.budget_to_unlock();
        let log = &mut self.thread.event_log;
        let call = log.asks(exclusive(lock), Some(budget), what.into());
        let condition = condition_of(&self.locks[lock as usize], number);
        let result = match all {
            true => condition.notify_all(),
            false => condition.notify_one(),
        };
        match result {
            Ok(()) => {
                let condition = number;
                log.note(Event::Notifies {
                    lock,
                    condition,
                    all,
                });
                log.answered(call, "notified");
            }
            Err(error) => log.failed(call, &error, matches!(error, Error::Lost { .. })),
        }
    }

    /// After a wait that failed, the thread may have the lock or not.
    fn drop_all(&mut self, lock: u32, guard: LockGuard, nested: Option<LockGuard>) {
        let budget = self.thread.budget_for_a_reply();
        let log = &mut self.thread.event_log;
        let call = log.asks(exclusive(lock), Some(budget), "drop".into());
        drop((nested, guard));
        log.answered(call, "dropped");
    }
}

fn condition_of(lock: &ReentrantLock, number: u32) -> Condition {
    lock.condition(if number == NOT_FULL {
        "not full"
    } else {
        "not empty"
    })
}
