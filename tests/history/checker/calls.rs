//! The calls of threads, and the holds that they acquired.

use std::fmt;

use super::span::Span;
use crate::record::Record;

/// Identifies a call, and the hold that it acquired: process, thread, and number of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId {
    pub process: u32,
    pub thread: u32,
    pub call: u64,
}

impl HoldId {
    pub fn of(record: &Record, call: u64) -> Self {
        Self {
            process: record.process,
            thread: record.thread,
            call,
        }
    }

    pub fn is_in_thread_of(self, other: Self) -> bool {
        (self.process, self.thread) == (other.process, other.thread)
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            thread,
            call,
        } = self;
        write!(f, "process {process} thread {thread} call {call}")
    }
}

#[derive(Clone, Debug)]
pub struct Call {
    pub lock: u32,
    /// The locks that it acquires, if they are several.
    pub together: Vec<u32>,
    /// What it waits for, if it waits for a notification.
    pub waits: Option<Wait>,
    /// How many permits it acquires; 1 for a lock.
    pub permits: u32,
    pub asked: u64,
    /// Milliseconds; 0: no bound while other threads hold the lock.
    pub budget: u64,
    pub what: String,
    pub answered: Option<u64>,
    /// What it returned, if it acquired nothing.
    pub answer: String,
    /// How long its thread was runnable without a CPU, in nanoseconds.
    pub starved: u64,
}

impl Call {
    /// True if the lease of its hold can end although its process lives, as `what` says.
    pub fn has_limited_lease(&self) -> bool {
        let limited = ["renewals: None", "renewals: Left"];
        limited.iter().any(|lease| self.what.contains(lease))
    }

    /// True if a client of Redisson made it.
    pub fn is_of_redisson(&self) -> bool {
        self.what.starts_with("Redisson")
    }

    /// For how long it waits, in nanoseconds, as `what` says.
    pub fn wait(&self) -> Option<u64> {
        self.time_after("try_")
    }

    /// For how long the lock stays held after it, in nanoseconds, as `what` says.
    pub fn kept(&self) -> u64 {
        self.time_after("unlock_after").unwrap_or(0)
    }

    /// The duration in the second word of `what`, in nanoseconds, if the first word begins with
    /// `begin`.
    fn time_after(&self, begin: &str) -> Option<u64> {
        let wait = self.what.strip_prefix(begin)?.split(' ').nth(1)?;
        let unit = wait.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let nanos = match &wait[unit..] {
            "ns" => 1.0,
            "\u{b5}s" => 1e3,
            "ms" => 1e6,
            _ => 1e9,
        };
        let number: f64 = wait[..unit].parse().ok()?;
        Some((number * nanos) as u64)
    }
}

/// A wait for the notification of a condition.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub condition: u32,
    /// Milliseconds; 0: without a limit.
    pub within: u64,
}

/// A notification of the thread that waits longest, or of all.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    pub lock: u32,
    pub condition: u32,
    pub all: bool,
    pub at: u64,
}

#[derive(Clone, Debug)]
pub struct Hold {
    pub id: HoldId,
    pub lock: u32,
    /// 1 for a lock.
    pub permits: u32,
    pub asked: u64,
    /// When the call that acquired it had returned.
    pub since: u64,
    /// The last time for which the lock confirmed the hold; at least `since`.
    pub vouched: Option<u64>,
    pub token: Option<u64>,
    /// Other threads may read at the same time.
    pub reads: bool,
    /// Its thread released it, and Redis confirmed that.
    pub is_released: bool,
    /// Its thread held the write lock when it acquired this read lock.
    pub is_nested: bool,
}

impl Hold {
    /// From the return of its acquire to its last confirmation, even if its key was deleted.
    pub fn confirmed(&self) -> Option<Span> {
        let (from, to) = (self.since, self.vouched?);
        Some(Span { from, to })
    }
}
