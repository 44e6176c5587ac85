//! A rush: all threads of all processes acquire one lock again and again, for as short as possible.
//! The threads of a process then hand it over among themselves.

use std::sync::atomic::Ordering;

use leasehold::{Error, Lease, Result};

use crate::clock;
use crate::event_log::before;
use crate::kind::{Access, Kind};
use crate::log::Event;
use crate::worker_thread::{Target, WorkerThread};

/// The most holds that are logged together. A killed worker loses those that are not logged yet.
const TOGETHER: usize = 64;

impl WorkerThread<'_> {
    /// The lock of the rush that this thread joins now.
    pub fn rush_now(&self) -> Option<u32> {
        let rush = self.args.rush(clock::now())?;
        let joins =
            !rush.has_left && !self.args.wants_too_many && (!rush.is_alone || self.thread == 1);
        joins.then_some(rush.lock)
    }

    /// True if this worker leaves this lock to the others, because it has left a rush.
    pub fn avoids(&self, lock: u32) -> bool {
        let rush = self.args.rush(clock::now());
        rush.is_some_and(|rush| rush.has_left && rush.lock == lock)
    }

    /// Joins a rush, for some holds. The whole is logged as one call, without a bound while others
    /// hold the lock.
    pub fn rush(&mut self, lock: u32) {
        let access = match self.args.kind_of(lock) {
            Kind::Semaphore(all) => Access::Several(all),
            _ => Access::Exclusive,
        };
        let at = Target { lock, access };
        let rush = self.event_log.asks(at, None, "rush".into());
        let mut holds = Vec::with_capacity(TOGETHER);
        let mut result = Ok(());
        while result.is_ok()
            && holds.len() < TOGETHER
            && !self.stop.load(Ordering::Relaxed)
            && self.rush_now() == Some(lock)
        {
            result = self.hold_briefly(lock, &mut holds);
        }
        self.event_log.held(holds);
        match result {
            Ok(()) => self.event_log.answered(rush, "rushed"),
            Err(error) => {
                let is_loss = matches!(error, Error::Lost { .. });
                self.event_log.failed(rush, &error, is_loss);
            }
        }
    }

    fn hold_briefly(&mut self, lock: u32, holds: &mut Vec<(u64, Event)>) -> Result<()> {
        let at = self.target(lock);
        let access = at.access;
        let choice = self.random.u8(..);
        let call = self.event_log.next_call();
        let lock = &self.locks[at.lock as usize];
        let asked = clock::now();
        let style = if choice.is_multiple_of(2) {
            lock.acquire(access)?
        } else {
            lock.lock_with(access, Lease::RENEWED)?
        };
        let since = clock::now();
        let nested = match choice / 2 % 8 {
            _ if !lock.nests() => Ok(()),
            0 => lock.acquire(access).and_then(|inner| inner.unlock(lock)),
            1 => lock
                .lock_with(access, Lease::RENEWED)
                .and_then(|inner| inner.unlock(lock)),
            _ => Ok(()),
        };
        let now = clock::now();
        let token = style.token();
        // A successful unlock confirms the hold as a check does.
        let is_valid = (choice / 16).is_multiple_of(2) && style.is_valid(lock);
        let unlocked = style.unlock(lock);
        let vouched = if is_valid || unlocked.is_ok() { now } else { 0 };
        let held = Event::Held {
            call,
            lock: at.lock,
            asked,
            token,
            vouched,
        };
        let records = before(access, call).into_iter().chain([held]);
        holds.extend(records.map(|record| (since, record)));
        nested.and(unlocked)
    }
}
