//! The event log of one thread.

use std::time::Duration;

use leasehold::Error;
use redis::RedisError;

use crate::clock;
use crate::kind::Access;
use crate::log::{Event, Log};
use crate::starvation::Starvation;
use crate::worker_thread::Target;

/// Starvation up to this is not logged, in nanoseconds.
const TOLERATED: u64 = 5_000_000;

/// Logs the calls of one thread.
pub struct EventLog<'a> {
    pub(crate) log: &'a Log,
    pub(crate) thread: u32,
    calls: u64,
    starvation: Starvation,
    /// How long the thread had been runnable without a processor when the current call began, in
    /// nanoseconds.
    starved: u64,
}

impl<'a> EventLog<'a> {
    /// Called on the thread whose calls it logs.
    pub fn new(log: &'a Log, thread: u32) -> Self {
        Self {
            log,
            thread,
            calls: 0,
            starvation: Starvation::of_this_thread(),
            starved: 0,
        }
    }

    /// The number of the next call.
    pub fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// Logs the start of a call and returns its number. Without a budget the call may take as long
    /// as other threads hold the lock.
    pub fn asks(&mut self, at: Target, budget: Option<Duration>, what: String) -> u64 {
        let budget = budget.map_or(0, whole_millis);
        let call = self.next_call();
        let asks = Event::Asks {
            call,
            lock: at.lock,
            budget,
            what,
        };
        let now = clock::now();
        let events = before(at.access, call).into_iter().chain([asks]);
        self.log
            .write_all(self.thread, events.map(|event| (now, event)));
        self.starved = self.starvation.nanos();
        call
    }

    /// Logs the short holds of a rush, with the times when they were acquired.
    pub fn held(&self, holds: Vec<(u64, Event)>) {
        self.log.write_all(self.thread, holds);
    }

    /// Logs a successful acquire: a first one, or a nested one inside `hold`.
    pub fn has(&self, call: u64, hold: Option<u64>, token: Option<u64>) {
        self.ends(
            call,
            match hold {
                None => Event::Has { call, token },
                Some(hold) => Event::HasAgain { call, hold, token },
            },
        );
    }

    /// Logs that the hold was still valid at `at`.
    pub fn vouches(&self, hold: u64, at: u64) {
        self.log.write(at, self.thread, Event::Vouches { hold });
    }

    /// Logs any other allowed result of a call.
    pub fn answered(&self, call: u64, answer: &str) {
        let answer = answer.to_owned();
        self.ends(call, Event::Answered { call, answer });
    }

    /// Logs a result that breaks the documentation of the call.
    pub fn wrong(&self, call: u64, answer: &str) {
        let answer = answer.to_owned();
        self.ends(call, Event::Wrong { call, answer });
    }

    /// Logs an error. It is wrong unless `allowed`, or Redis did not reply, or refused the log-in:
    /// the checker knows when it may.
    pub fn failed(&self, call: u64, error: &Error, allowed: bool) {
        let kind = match error {
            Error::Lost { .. } => "lost",
            Error::Unavailable { .. }
            | Error::NotReleased { .. }
            | Error::Query {
                executed: false, ..
            }
            | Error::TooFewReplicas { .. } => "unavailable",
            _ => "error",
        };
        let answer = format!("{kind}: {error}");
        if is_refused_log_in(error) {
            self.ends(call, Event::Refused { call, answer });
        } else if allowed || kind == "unavailable" {
            self.answered(call, &answer);
        } else {
            self.wrong(call, &answer);
        }
    }

    fn ends(&self, call: u64, event: Event) {
        let at = clock::now();
        let nanos = self.starvation.nanos().saturating_sub(self.starved);
        if nanos > TOLERATED {
            let starved = Event::Starved { call, nanos };
            self.log.write(at, self.thread, starved);
        }
        self.log.write(at, self.thread, event);
    }
}

/// True if the server refused the log-in, so it has not received the request.
pub fn is_refused_log_in(error: &Error) -> bool {
    let Error::Redis { cause, .. } = error else {
        return false;
    };
    let cause = cause.downcast_ref::<RedisError>();
    cause.and_then(RedisError::code) == Some("WRONGPASS")
}

/// What is logged before the record of a call with this access.
pub fn before(access: Access, call: u64) -> Option<Event> {
    match access {
        Access::Exclusive => None,
        Access::Shared => Some(Event::Reads { call }),
        Access::Several(permits) => Some(Event::Needs { call, permits }),
    }
}

pub(crate) fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
