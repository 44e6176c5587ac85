//! Unlocks one level of a hold. After the last level, the local queue decides whether the grant is
//! handed over, stays idle, or is released in Redis.

use std::sync::Arc;
use std::time::Duration;

use super::grant_request::{GrantReply, note_count, request_about_grant, reschedule_if_earlier};
use crate::base::CallBudget;
use crate::core::Core;
use crate::error::{Cause, Error, LostReason, Result};
use crate::local::{Hold, KeptInRedis, Unlocked, Unlocks};
use crate::observe::{LockEvent, tell};
use crate::protocol::Verdict;
use crate::script::Call;
use crate::watchdog::ActiveCall;

/// A level that is unlocked, while Redis may have to release the lock.
pub(crate) struct Release<'a> {
    core: &'a Arc<Core>,
    hold: &'a Arc<Hold>,
    unlocked: Unlocked,
    /// A shutdown waits for the release: only this thread sends it.
    _call: ActiveCall<'a>,
}

/// A release that has ended, except for what calls code of the application.
pub(crate) struct Ended<'a> {
    core: &'a Arc<Core>,
    hold: &'a Arc<Hold>,
    result: Result<()>,
    report: Report,
}

impl<'a> Release<'a> {
    /// Unlocks these levels of a hold. A grant that no thread wants may be idle for as long as
    /// `linger`.
    ///
    /// A hold that is suspended can [continue](crate::local::LocalQueue::resume).
    pub(crate) fn begin(
        core: &'a Arc<Core>,
        hold: &'a Arc<Hold>,
        unlocks: Unlocks,
        linger: Duration,
    ) -> Self {
        Self::of(core, hold, || core.queue.unlock(hold, unlocks, linger))
    }

    fn of(core: &'a Arc<Core>, hold: &'a Arc<Hold>, unlock: impl FnOnce() -> Unlocked) -> Self {
        // Before the grant ends here, because from then on only this thread releases it.
        let call = core.watchdog.delay_shutdown();
        let unlocked = unlock();
        tell_watchdog(core, hold, unlocked);
        Self {
            core,
            hold,
            unlocked,
            _call: call,
        }
    }

    /// Unlocks an owned hold whose guard was dropped. Sends no request: what Redis has to release,
    /// the watchdog releases.
    pub(crate) fn of_dropped(core: &Arc<Core>, hold: &Arc<Hold>) -> Result<()> {
        let release = Release::of(core, hold, || core.queue.unlock_dropped(hold, core.linger));
        if let Some(call) = release.call()
            && core.watchdog.release_grant(hold.grant(), call)
            && release.unlocked == Unlocked::Last
        {
            core.observer.counters.releases.add(1);
        }
        release.end(None).report()
    }

    /// Sends the release if one is needed, and ends. `budget` is made only then.
    pub(crate) fn run(self, budget: impl FnOnce() -> CallBudget<'static>) -> Result<()> {
        let ended = match self.call() {
            Some(call) => {
                let budget = budget();
                let reply = request_about_grant(self.core, self.hold.key(), call, &budget);
                self.end(Some((reply, &budget)))
            }
            None => self.end(None),
        };
        ended.report()
    }

    /// True if another thread has the grant now.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.unlocked == Unlocked::HandedOver
    }

    /// Ends a grant that is idle, which is then released as if it had not been.
    pub(crate) fn end_idle(&mut self) {
        if self.unlocked == Unlocked::Idle && self.core.queue.end_idle_after(self.hold) {
            self.unlocked = Unlocked::Last;
            tell_watchdog(self.core, self.hold, self.unlocked);
        }
    }

    pub(crate) fn core(&self) -> &'a Arc<Core> {
        self.core
    }

    pub(crate) fn hold(&self) -> &'a Arc<Hold> {
        self.hold
    }

    /// The call that releases the lock, if Redis has to.
    pub(crate) fn call(&self) -> Option<Call> {
        must_release(self.hold, self.unlocked).then(|| self.hold.grant().end_call())
    }

    /// Ends the release. `reply` is set if Redis was asked. The ticket passes on.
    pub(crate) fn end(self, reply: Option<(Result<GrantReply>, &CallBudget)>) -> Ended<'a> {
        let (core, hold, unlocked) = (self.core, self.hold, self.unlocked);
        let mut released = None;
        let (result, report) = match (unlocked, reply) {
            (Unlocked::Last, Some((reply, budget))) => {
                match ReleaseEnd::of(core, hold, reply, budget) {
                    ReleaseEnd::Released(listeners) => {
                        core.observer.counters.releases.add(1);
                        released = listeners;
                        (Ok(()), Report::Ended("released"))
                    }
                    ReleaseEnd::Unclear(error) => {
                        let retried = release_later(core, hold);
                        let error = error.of_release(retried, false);
                        (Err(error), Report::Ended("unconfirmed"))
                    }
                    ReleaseEnd::Gone(reason) => {
                        // One permit is lost, and the script has given none of them away.
                        let grant = hold.grant();
                        if grant.given_away().is_some() && grant.owner().permits() > 1 {
                            release_later(core, hold);
                        }
                        let lost = hold.lose_on_release(reason);
                        let report = lost.map_or(Report::Nothing, Report::Lost);
                        (Err(hold.loss_error(reason)), report)
                    }
                }
            }
            (unlocked, reply) => without_release(hold, unlocked, reply.map(|(reply, _)| reply)),
        };
        if matches!(unlocked, Unlocked::Last | Unlocked::Lost { last: true, .. }) {
            // After a loss is recorded, which is kept until the thread unlocks.
            core.queue.close(hold, released);
        }
        Ended {
            core,
            hold,
            result,
            report,
        }
    }
}

impl Ended<'_> {
    /// Calls code of the application. So it comes last, when nothing is left to do.
    pub(crate) fn report(self) -> Result<()> {
        self.report.tell(self.core, self.hold);
        self.result
    }
}

/// Before the request: tells the watchdog what became of the grant.
fn tell_watchdog(core: &Core, hold: &Hold, unlocked: Unlocked) {
    let grant = hold.grant();
    match unlocked {
        Unlocked::NotHeld | Unlocked::Lost { .. } => {}
        // The holds that are left are not due earlier.
        Unlocked::Inner | Unlocked::Shared => note_count(core, hold),
        Unlocked::HandedOver | Unlocked::Idle => reschedule_if_earlier(core, &grant),
        // First, so that no renewal follows the release.
        Unlocked::Last => core.watchdog.forget(grant.id()),
    }
}

/// True if Redis has to release the lock.
fn must_release(hold: &Hold, unlocked: Unlocked) -> bool {
    match unlocked {
        Unlocked::Last => true,
        // Redis may still have the lock: otherwise other clients would wait.
        Unlocked::Lost { reason, last: true } => {
            let grant = hold.grant();
            let may_be_left = matches!(reason, LostReason::Expired | LostReason::RenewalLimit)
                // The loss of one permit ends the grant of all.
                || grant.owner().permits() > 1;
            // Other threads may still use it.
            hold.has_ended_with_majority() || may_be_left && grant.has_ended()
        }
        _ => false,
    }
}

/// The result of an unlock after which Redis has no lock to release. `reply` is set if Redis was
/// asked nevertheless, because it could still have a lock that was lost.
fn without_release(
    hold: &Hold,
    unlocked: Unlocked,
    reply: Option<Result<GrantReply>>,
) -> (Result<()>, Report) {
    match unlocked {
        Unlocked::NotHeld => {
            let lost = hold.loss_reason().map(|reason| hold.lost_error(reason));
            let error = lost.unwrap_or_else(|| hold.not_held());
            (Err(error), Report::Nothing)
        }
        Unlocked::Lost { reason, .. } => {
            // After a request without a reply, the lock ends with its lease.
            let report = match reply {
                Some(Ok(reply)) if reply.verdict.is_done() => Report::ReleasedLate,
                _ => Report::Nothing,
            };
            (Err(hold.lost_error(reason)), report)
        }
        Unlocked::Inner => (Ok(()), Report::Nothing),
        // The watchdog releases it.
        Unlocked::Last => (Ok(()), Report::Ended("unconfirmed")),
        Unlocked::HandedOver => (Ok(()), Report::Ended("handed_over")),
        Unlocked::Idle => (Ok(()), Report::Ended("kept")),
        Unlocked::Shared => (Ok(()), Report::Ended("released")),
    }
}

/// What the release of the last level has brought.
enum ReleaseEnd {
    /// Redis has released the lock. With the clients that listened, if that is known.
    Released(Option<Verdict>),
    /// There is no clear reply.
    Unclear(Error),
    /// Redis did not have the lock any more.
    Gone(LostReason),
}

impl ReleaseEnd {
    fn of(core: &Core, hold: &Hold, reply: Result<GrantReply>, budget: &CallBudget) -> Self {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return Self::Unclear(error),
        };
        match reply.verdict {
            // Other clients did not get the lock, so this client leaves it to none of them.
            Verdict::Done { .. } if hold.grant().given_away().is_some() => Self::Released(None),
            Verdict::Done { .. } => {
                let verdict = core.subscriber.without_own(hold.key(), reply.verdict);
                Self::Released(Some(verdict))
            }
            // Either an earlier copy has released the lock, or the lock was lost before.
            Verdict::Lost(_) if reply.reached_another_server => {
                let cause = "a failover during the release: the new server does not have the lock";
                let key = hold.key();
                Self::Unclear(core.redis.unavailable(key, budget, Cause::from(cause)))
            }
            // An earlier copy of this request has released the lock.
            Verdict::Lost(_) if reply.is_ambiguous && hold.grant().given_away().is_none() => {
                Self::Released(None)
            }
            Verdict::Lost(reason) => Self::Gone(reason),
        }
    }
}

/// What the operator learns of an unlock.
enum Report {
    Nothing,
    /// The hold has ended: counts it, and gives its span this outcome.
    Ended(&'static str),
    Lost(LostReason),
    /// The lock of a lost hold was still in Redis.
    ReleasedLate,
}

impl Report {
    /// Calls code of the application.
    fn tell(&self, core: &Core, hold: &Hold) {
        let counters = &core.observer.counters;
        match self {
            Self::Nothing => {}
            Self::Ended(outcome) => {
                hold.count_end(counters);
                hold.end_span(outcome);
            }
            Self::Lost(reason) => {
                hold.report_loss(*reason);
                hold.count_end(counters);
            }
            Self::ReleasedLate => report_late_release(core, hold),
        }
    }
}

/// Hands a release without a clear reply to the watchdog. False if the lock must stay in Redis for
/// a while, or if the watchdog has ended: then it ends with the rest of its lease.
fn release_later(core: &Core, hold: &Hold) -> bool {
    let grant = hold.grant();
    let kept = grant.kept_in_redis();
    let owner = match &kept {
        None => grant.owner(),
        // No client has its token.
        Some(KeptInRedis::ForToken(owner, _)) => owner,
        Some(KeptInRedis::For(..)) => return false,
    };
    let call = grant.kind.release(grant.key(), owner);
    core.watchdog.release_grant(grant, call)
}

/// Reports a lost hold whose lock was still in Redis and had to be released.
fn report_late_release(core: &Core, hold: &Hold) {
    if let Some(late_by) = hold.late_by() {
        core.observer.emit(&LockEvent::ReleasedLate {
            lock: hold.key().shared_name(),
            late_by,
        });
        let lock = hold.key().shared_name();
        tell(move || {
            tracing::info!(
                lock = &*lock,
                ?late_by,
                "a lock was released after the end of its lease"
            );
        });
    }
}
