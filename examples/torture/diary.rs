//! How one thread writes down what it does.

use std::time::Duration;

use leasehold::Error;

use crate::clock;
use crate::log::{Event, Log};

/// The lines of one thread.
pub struct Diary<'a> {
    log: &'a Log,
    thread: u32,
    calls: u64,
}

impl<'a> Diary<'a> {
    pub fn new(log: &'a Log, thread: u32) -> Self {
        Self {
            log,
            thread,
            calls: 0,
        }
    }

    /// Before a call; its number. No budget: as long as others hold the lock.
    pub fn asks(&mut self, lock: u32, budget: Option<Duration>, what: String) -> u64 {
        self.calls += 1;
        let budget = budget.map_or(0, whole_millis);
        let call = self.calls;
        self.write(Event::Asks {
            call,
            lock,
            budget,
            what,
        });
        call
    }

    /// After a call that took the lock, for the first time or, in `hold`, once more.
    pub fn has(&self, call: u64, hold: Option<u64>, token: Option<u64>) {
        self.write(match hold {
            None => Event::Has { call, token },
            Some(hold) => Event::HasAgain { call, hold, token },
        });
    }

    /// The hold stood at this time, or later.
    pub fn vouches(&self, hold: u64, at: u64) {
        self.log.write(at, self.thread, Event::Vouches { hold });
    }

    pub fn answered(&self, call: u64, answer: &str) {
        let answer = answer.to_owned();
        self.write(Event::Answered { call, answer });
    }

    pub fn wrong(&self, call: u64, answer: &str) {
        let answer = answer.to_owned();
        self.write(Event::Wrong { call, answer });
    }

    /// After a call that failed, which is wrong unless `allowed`.
    pub fn failed(&self, call: u64, error: &Error, allowed: bool) {
        let answer = error.to_string();
        if allowed || matches!(error, Error::Unavailable { .. }) {
            self.answered(call, &answer);
        } else {
            self.wrong(call, &answer);
        }
    }

    fn write(&self, event: Event) {
        self.log.write(clock::now(), self.thread, event);
    }
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
