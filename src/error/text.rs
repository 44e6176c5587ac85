//! Parts of the texts of errors.
//!
//! An error that also calls of semaphores and latches return names the object by its quoted name
//! alone, without its kind.

use super::{LostReason, SharedCause, TimeLimit};

/// The beginning of the text of an error: the name, unless the call concerns none.
pub(super) fn about(lock: &str) -> String {
    match lock {
        "" => String::new(),
        lock => format!("{lock:?}: "),
    }
}

/// As [`about`], but empty if the value of an argument is the quoted name.
pub(super) fn about_unless(value: &str, lock: &str) -> String {
    match *value == format!("{lock:?}") {
        true => String::new(),
        false => about(lock),
    }
}

/// The text of [`Error::NotHeld`](super::Error::NotHeld).
pub(super) fn not_held(lock: &str, by_guard: bool) -> String {
    match (lock, by_guard) {
        ("", _) => "no lock is held: this thread executes no function with `#[locked]`".into(),
        (lock, true) => format!("this thread holds lock {lock:?} by a guard: unlock the guard"),
        (lock, false) => format!(
            "lock {lock:?} is not held by this thread; only the thread that acquired it can use \
             or release it"
        ),
    }
}

/// The text of [`Error::Lost`](super::Error::Lost).
pub(super) fn lost(lock: &str, reason: LostReason) -> String {
    match reason {
        LostReason::TokenSpent => format!(
            "{lock:?} was not taken over ({reason}); do not begin the work: another process may \
             have done it, or do it now"
        ),
        _ => format!(
            "{lock:?} was lost ({reason}); stop the work that it protects; if a thread held it, \
             and not an owned guard, that thread can acquire it again once it has released it"
        ),
    }
}

/// Which limit ended a call, after the time that it took.
pub(super) fn limited(limit: Option<TimeLimit>) -> String {
    limit.map_or_else(String::new, |limit| format!(", limited by {limit}"))
}

/// The text of [`Error::NotReleased`](super::Error::NotReleased), after the name.
pub(super) fn not_released(
    node: &str,
    limit: Option<TimeLimit>,
    cause: &SharedCause,
    is_change: bool,
    retried: bool,
) -> String {
    let (begin, request, what) = match is_change {
        true => ("", "call", "this call"),
        false => ("the work was done, but ", "release", "the work"),
    };
    let why = match (is_change, retried) {
        (true, true) => "the watchdog does, and Redis executes it once",
        (true, false) => "Redis may have executed it; nothing repeats it",
        (false, true) => {
            "the watchdog still tries to release it, and what has a lease ends within it"
        }
        (false, false) => "nothing repeats the release; what has a lease ends within it",
    };
    let limited = limited(limit);
    format!(
        "{begin}Redis at {node} sent no clear reply to the {request} in time{limited} ({cause}); \
         do not repeat {what}: {why}"
    )
}

/// The text of [`Error::Query`](super::Error::Query), after the name.
pub(super) fn query(node: &str, cause: &SharedCause, executed: bool) -> String {
    match executed {
        true => format!(
            "Redis at {node} executed the query, but not all of it succeeded, or its replies do \
             not fit the type ({cause}); do not repeat it: the other commands had their effect"
        ),
        false => format!(
            "Redis at {node} sent no clear reply to the query in time ({cause}); do not repeat it: \
             Redis may have executed it, or may do so later; read what it writes by another query"
        ),
    }
}

/// Who has a lock, by its owner id in Redis. The owner may be a client that has unlocked the lock
/// and keeps it for a while.
pub(super) fn owner(owner: Option<&str>) -> String {
    match owner {
        Some(owner) => format!("its owner is {owner}, whose process LockClient::holder finds"),
        None => "another client or thread had it".into(),
    }
}
