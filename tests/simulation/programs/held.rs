//! How a program checks and ends a hold of one or several names.

use leasehold::{Error, LockGuard};

use crate::clock;
use crate::kind::Access;
use crate::log::Event;
use crate::worker_thread::{Target, WorkerThread};

/// A name that a thread holds, and the number of the call that acquired it.
pub type Part = (u32, u64);

/// The target of an exclusive lock.
pub fn exclusive(lock: u32) -> Target {
    let access = Access::Exclusive;
    Target { lock, access }
}

/// Logs that the hold of these names is confirmed. False if it is lost.
pub fn vouch(thread: &WorkerThread<'_>, parts: &[Part], guard: &LockGuard) -> bool {
    let now = clock::now();
    let is_held = guard.check().is_ok();
    if is_held {
        for (_, call) in parts {
            thread.event_log.vouches(*call, now);
        }
    }
    is_held
}

/// Unlocks these names.
pub fn unlock(thread: &mut WorkerThread<'_>, parts: &[Part], guard: LockGuard) {
    let budget = thread.budget_to_unlock();
    let log = &mut thread.event_log;
    let call = log.asks(exclusive(parts[0].0), Some(budget), "unlock".into());
    if let [_, _, ..] = parts {
        let locks = parts.iter().map(|(lock, _)| *lock).collect();
        log.note(Event::Together { call, locks });
    }
    let before = clock::now();
    match guard.unlock() {
        Ok(()) => {
            for (_, hold) in parts {
                log.vouches(*hold, before);
            }
            log.answered(call, "unlocked");
        }
        Err(error) => {
            let is_lost = matches!(error, Error::Lost { .. });
            log.failed(call, &error, is_lost);
        }
    }
}
