//! Latches: threads count down, and others wait until the count is zero. Each latch is used once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{CountDownLatch, Error, Interrupt, LockClient, Result};

use super::held::exclusive;
use crate::args::Args;
use crate::clock;
use crate::kind::Kind;
use crate::log::Event;
use crate::worker_thread::WorkerThread;

/// The number of the latch that is used now. The log calls it a lock that no thread holds.
static CURRENT: AtomicU32 = AtomicU32::new(0);

/// Smaller numbers were taken by a thread that sets the count: one for each latch, so no latch is
/// used again. And the latch whose count is set.
static TAKEN: AtomicU32 = AtomicU32::new(0);
static SET: AtomicU32 = AtomicU32::new(u32::MAX);

/// Where the numbers begin: those of the locks are smaller.
const FIRST: u32 = 100;

pub fn adapt(args: &mut Args) {
    (args.kind, args.locks) = (Some(Kind::Reentrant), 1);
    args.processes = args.processes.max(2);
}

pub fn run(client: &LockClient, thread: WorkerThread<'static>) {
    let mut latches = Latches {
        client,
        interrupt: Interrupt::new(),
        waits: Arc::new(AtomicU32::new(u32::MAX)),
        thread,
    };
    let (stop, interrupt) = (latches.thread.stop, latches.interrupt.clone());
    let (log, waits) = (latches.thread.event_log.log, Arc::clone(&latches.waits));
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(100));
            let number = waits.load(Ordering::Relaxed);
            if number < CURRENT.load(Ordering::Relaxed) {
                // The message may be lost, but the latch stays open.
                log.write(clock::now(), 0, opens(number));
            }
        }
        interrupt.interrupt();
    });
    while !stop.load(Ordering::Relaxed) {
        latches.use_one();
        latches.thread.idle(Duration::from_millis(100));
    }
}

/// The event that a latch is open.
fn opens(number: u32) -> Event {
    Event::Notifies {
        lock: FIRST + number,
        condition: 0,
        all: true,
    }
}

struct Latches<'a> {
    client: &'a LockClient,
    /// Ends the waits when the worker is asked to stop.
    interrupt: Interrupt,
    /// The number of the latch for which the thread waits without a limit; else the largest number.
    waits: Arc<AtomicU32>,
    thread: WorkerThread<'static>,
}

impl Latches<'_> {
    fn use_one(&mut self) {
        let number = CURRENT.load(Ordering::Relaxed);
        let latch = self.client.count_down_latch(&format!("latch:{number}"));
        if TAKEN.load(Ordering::Relaxed) <= number {
            TAKEN.store(number + 1, Ordering::Relaxed);
            self.set(number, &latch);
        } else if SET.load(Ordering::Relaxed) == number {
            match self.thread.random.bool() {
                true => self.count_down(number, &latch),
                false => self.wait(number, &latch),
            }
        }
    }

    fn asks(&mut self, number: u32, what: String) -> u64 {
        let budget = self.thread.budget_to_unlock();
        let at = exclusive(FIRST + number);
        self.thread.event_log.asks(at, Some(budget), what)
    }

    fn set(&mut self, number: u32, latch: &CountDownLatch) {
        let count = self.thread.random.u64(1..=5);
        let call = self.asks(number, format!("try_set_count {count}"));
        let result = latch.try_set_count(count);
        match result {
            Ok(true) => SET.store(number, Ordering::Relaxed),
            // A count may be set later.
            _ => CURRENT.store(number + 1, Ordering::Relaxed),
        }
        self.log_result(call, result.map(|is_set| format!("{is_set}")));
    }

    /// The call that reaches zero opens the latch. Then the next one is used.
    fn count_down(&mut self, number: u32, latch: &CountDownLatch) {
        let call = self.asks(number, "count_down".into());
        let result = latch.count_down();
        if let Ok(0) = result {
            self.thread.event_log.note(opens(number));
            let next = number + 1;
            CURRENT.fetch_max(next, Ordering::Relaxed);
        }
        self.log_result(call, result.map(|left| format!("{left} left")));
    }

    fn wait(&mut self, number: u32, latch: &CountDownLatch) {
        let wait = self.thread.wait();
        let is_limited = self.thread.thread == 1 || self.thread.random.bool();
        let at = exclusive(FIRST + number);
        if is_limited {
            let budget = self.thread.budget_to_try(wait);
            let what = format!("wait_for {wait:?}");
            let call = self.thread.event_log.asks(at, Some(budget), what);
            let result = latch.wait_for(wait);
            return self.log_result(call, result.map(|is_open| format!("{is_open}")));
        }
        let call = self
            .thread
            .event_log
            .asks_to_wait(at, 0, None, "wait".into());
        self.waits.store(number, Ordering::Relaxed);
        let result = latch.wait_interruptibly(&self.interrupt);
        self.waits.store(u32::MAX, Ordering::Relaxed);
        self.log_result(call, result.map(|()| "open".into()));
    }

    fn log_result(&self, call: u64, result: Result<String>) {
        let log = &self.thread.event_log;
        match result {
            Ok(answer) => log.answered(call, &answer),
            Err(error) => {
                let is_stopped = self.thread.stop.load(Ordering::Relaxed);
                let is_allowed = is_stopped && matches!(error, Error::Interrupted { .. });
                log.failed(call, &error, is_allowed);
            }
        }
    }
}
