//! What the watchdog renews, and what it asks of it.

use std::fmt;
use std::sync::Arc;

use super::registry::Schedule;
use crate::base::test_clock::Skip;
use crate::base::{LockKey, Moment};
use crate::error::LostReason;
use crate::protocol::Verdict;
use crate::script::Call;

/// A target of the watchdog: something whose lease it renews.
///
/// The watchdog's thread calls these methods without a locked mutex, except [`schedule`]. A panic
/// in one call does not affect the other targets.
///
/// [`schedule`]: Self::schedule
pub(crate) trait Renew: Skip + Send + Sync + fmt::Debug {
    /// When the target is due. This method is called under the watchdog's mutex: it computes the
    /// result from the target's state, and calls neither the watchdog nor code of the application.
    fn schedule(&self) -> Schedule;
    /// The request that only confirms the target. `None` if no thread holds a lock by it any more,
    /// or if it is confirmed after `latest`.
    fn confirmation(&self, _latest: Moment) -> Option<Renewal> {
        None
    }
    /// What the watchdog has to do at `now`.
    fn next_step(&self, now: Moment) -> Step;
    /// Called after Redis confirmed this renewal, which was sent after `asked`.
    fn renewed(&self, asked: Moment, done: &Renewal);
    /// Called after a renewal got no clear reply. The lock may or may not be held.
    fn not_renewed(&self, _asked: &Renewal, _cause: &str) {}
    /// Called after Redis replied to a renewal that the lock is gone.
    fn lost(&self, reason: LostReason);
    /// Ends the target if no thread uses it, and returns the call that releases it in Redis.
    fn end_idle_grant(&self) -> Option<Call> {
        None
    }
    /// Called with Redis' verdict on the release of the ended target.
    fn released(&self, _verdict: Verdict) {}
    /// Ends the target because its client is shut down, also if a thread uses it. Notifies no
    /// thread, and calls no code of the application. `None` if nothing is to be released.
    fn shut_down(self: Arc<Self>) -> Option<AtShutdown> {
        None
    }
    /// The number of permits of a grant; 1 for a lock.
    fn permits(&self) -> usize {
        1
    }
    /// The lock in Redis.
    fn key(&self) -> &LockKey;
    /// Until when Redis may keep the lock.
    fn lease_ends(&self) -> Moment;
    /// Makes a confirmation the next step.
    fn confirm_now(&self) {}
}

/// What has to be done about a target that a shutdown has ended.
pub(crate) struct AtShutdown {
    /// Releases it in Redis.
    pub(crate) release: Call,
    /// Notifies the threads that use it or wait for it.
    pub(crate) notify: Box<dyn FnOnce() -> LossReport>,
}

/// Reports a loss to the operator, which calls code of the application.
pub(crate) type LossReport = Box<dyn FnOnce()>;

/// The renewal of one lock.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    /// Can be joined with the calls of other locks.
    pub(crate) call: Call,
    /// The new lease in milliseconds; 0 if the lock is only confirmed.
    pub(crate) millis: u64,
    /// The hold count that is written; `None` if Redis keeps the one that it has.
    pub(crate) count: Option<u32>,
    /// The hold that alone gets the longer lease; `None` for all holds that are renewed.
    pub(crate) hold: Option<u64>,
    /// The newest hold whose limit of renewals this one counts against, with all older ones.
    pub(crate) limited: Option<u64>,
}

impl Renewal {
    /// A call that only confirms that Redis has the lock.
    pub(crate) fn confirming(call: Call) -> Self {
        Self {
            call,
            millis: 0,
            count: None,
            hold: None,
            limited: None,
        }
    }
}

/// What the watchdog has to do about a target that is due.
#[derive(Debug)]
pub(crate) enum Step {
    Renew(Renewal),
    /// Remove the target, and release it by this call.
    Release(Call),
    /// Nothing now.
    Wait,
    /// Remove the target.
    Forget,
}
