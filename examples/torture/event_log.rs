//! How one thread writes down what it does.

use std::fs;
use std::time::Duration;

use leasehold::Error;

use crate::clock;
use crate::log::{Event, Log};

/// Starvation that is not worth a line, in nanoseconds.
const UNNOTICED: u64 = 5_000_000;

/// The lines of one thread.
pub struct EventLog<'a> {
    log: &'a Log,
    thread: u32,
    calls: u64,
    /// What [`starved`] said before the call under way.
    starved: u64,
}

impl<'a> EventLog<'a> {
    pub fn new(log: &'a Log, thread: u32) -> Self {
        Self {
            log,
            thread,
            calls: 0,
            starved: 0,
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
        self.starved = starved();
        call
    }

    /// After a call that took the lock, for the first time or, in `hold`, once more.
    pub fn has(&self, call: u64, hold: Option<u64>, token: Option<u64>) {
        self.ends(
            call,
            match hold {
                None => Event::Has { call, token },
                Some(hold) => Event::HasAgain { call, hold, token },
            },
        );
    }

    /// The hold stood at this time, or later.
    pub fn vouches(&self, hold: u64, at: u64) {
        self.log.write(at, self.thread, Event::Vouches { hold });
    }

    pub fn answered(&self, call: u64, answer: &str) {
        let answer = answer.to_owned();
        self.ends(call, Event::Answered { call, answer });
    }

    pub fn wrong(&self, call: u64, answer: &str) {
        let answer = answer.to_owned();
        self.ends(call, Event::Wrong { call, answer });
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

    fn ends(&self, call: u64, event: Event) {
        let at = clock::now();
        let nanos = starved().saturating_sub(self.starved);
        if nanos > UNNOTICED {
            let starved = Event::Starved { call, nanos };
            self.log.write(at, self.thread, starved);
        }
        self.log.write(at, self.thread, event);
    }

    fn write(&self, event: Event) {
        self.log.write(clock::now(), self.thread, event);
    }
}

/// How long this thread has been ready to run while the machine ran others, in nanoseconds, as the
/// system counts it; 0 where it does not.
fn starved() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let number = text.split_whitespace().nth(1);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
