//! Unlocks one level: writes the new count, or releases the lock in Redis and its ticket here.

use std::time::Duration;

use super::hold_requests;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::{self, OwnerId};
use crate::core::Core;
use crate::error::{Error, LostReason, Result};
use crate::local::{Hold, LevelId, Popped, Written};
use crate::observe::{LockEvent, tell};
use crate::request::{NoReply, Reply};
use crate::script::{self, Call, Verdict};

/// Unlocks `level`, or the newest level without a guard.
pub(super) fn release(
    core: &Core,
    hold: &Hold,
    level: Option<LevelId>,
    budget: &CallBudget,
) -> Result<()> {
    let release = Release::begin(core, hold, level)?;
    let result = release.send(budget);
    release.finish(result)
}

/// The release of a level that this process no longer counts. The request to Redis follows.
#[derive(Debug)]
pub(super) struct Release<'a> {
    core: &'a Core,
    hold: &'a Hold,
    kind: ReleaseKind,
}

#[derive(Debug)]
enum ReleaseKind {
    /// This many levels are left. The count is written to this owner id.
    Inner(u32, OwnerId),
    /// The lock is released.
    Last,
    /// The hold was lost before.
    Lost {
        reason: LostReason,
        last: bool,
        /// Redis may still have the lock, so it is released: otherwise other clients would wait.
        clears: bool,
    },
}

impl<'a> Release<'a> {
    pub(super) fn begin(core: &'a Core, hold: &'a Hold, level: Option<LevelId>) -> Result<Self> {
        if !core.is_same_process() {
            return Err(hold.not_held());
        }
        // Ends a hold whose lease has run out as lost, even if Redis still has the lock.
        let _ = hold.check();
        let popped = hold.pop(level);
        if hold.may_be_renewed_late() {
            owner::retire();
        }
        let kind = match popped {
            Popped::Nothing => return Err(hold.not_held()),
            Popped::Inner(count) => ReleaseKind::Inner(count, hold.begin_count()),
            Popped::Last => {
                // First, so that no renewal follows the release.
                core.watchdog.forget(hold.id());
                ReleaseKind::Last
            }
            // Decided once, because another thread can change the state of the hold.
            Popped::Lost { reason, last } => ReleaseKind::Lost {
                reason,
                last,
                clears: last
                    && (hold.has_ended_with_majority()
                        || matches!(reason, LostReason::Expired | LostReason::RenewalLimit)),
            },
        };
        Ok(Self { core, hold, kind })
    }

    pub(super) fn core(&self) -> &'a Core {
        self.core
    }

    pub(super) fn key(&self) -> &'a LockKey {
        self.hold.key()
    }

    /// True if there is a request to send.
    pub(super) fn has_call(&self) -> bool {
        !matches!(self.kind, ReleaseKind::Lost { clears: false, .. })
    }

    /// The request to send, if any.
    pub(super) fn call(&self) -> Option<Call> {
        match &self.kind {
            ReleaseKind::Inner(count, owner) => Some(self.recount(*count, owner)),
            ReleaseKind::Last => Some(match self.hold.kept_in_redis() {
                Some((millis, name)) => {
                    script::leave(self.key(), &self.hold.owner(), millis, &name)
                }
                None => self.release(),
            }),
            ReleaseKind::Lost { clears: true, .. } => Some(self.release()),
            ReleaseKind::Lost { .. } => None,
        }
    }

    fn recount(&self, count: u32, owner: &OwnerId) -> Call {
        script::recount(self.key(), owner, count, 0)
    }

    fn release(&self) -> Call {
        script::release(self.key(), &self.hold.owner())
    }

    /// The call in another copy of the request, if it differs from the first.
    pub(super) fn next_call(&self) -> Option<Call> {
        match &self.kind {
            ReleaseKind::Inner(count, begun) => {
                Some(self.recount(*count, &self.hold.retry_count(begun)))
            }
            _ => None,
        }
    }

    /// Sends the request, with further copies until there is a reply.
    pub(super) fn send(&self, budget: &CallBudget) -> Option<Result<Reply, NoReply>> {
        let call = self.call()?;
        let redis = &self.core.redis;
        let reply = redis.request_with_retry(self.key(), call, || self.next_call(), budget);
        Some(reply.and_then(|reply| self.check_reply(reply, budget)))
    }

    /// Fails if the reply does not tell whether an earlier copy, sent to another server, released
    /// the lock.
    pub(super) fn check_reply(&self, reply: Reply, budget: &CallBudget) -> Result<Reply, NoReply> {
        let is_gone = matches!(script::verdict(&reply.reply), Ok(Verdict::Lost(_)));
        if matches!(self.kind, ReleaseKind::Last)
            && is_gone
            && reply.lost_copies.reached_another_server()
        {
            // Either an earlier copy has released the lock, or the lock was lost before.
            let cause = "a failover during the release: the new server does not have the lock";
            let redis = &self.core.redis;
            let error = redis.unavailable(self.key(), budget, cause.into());
            return Err(NoReply {
                error,
                lost_copies: reply.lost_copies,
            });
        }
        Ok(reply)
    }

    /// Ends the release with the reply; `None` if there was no request.
    pub(super) fn finish(self, result: Option<Result<Reply, NoReply>>) -> Result<()> {
        let Self { core, hold, kind } = self;
        match kind {
            ReleaseKind::Inner(..) => {
                let result = result.map(|result| hold_requests::recounted(core, hold, result));
                if !matches!(result, Some(Ok(_))) {
                    // The level is unlocked all the same. The watchdog writes the count.
                    hold.end_count(Written::Unknown);
                }
                core.watchdog.reschedule(hold.id());
                result.map_or(Ok(()), |result| result.map(drop))
            }
            ReleaseKind::Last => {
                let result = result.map_or(Ok(()), |result| released(core, hold, result));
                core.queue.close(hold);
                if result.is_ok() {
                    core.observer.counters.releases.add(1);
                }
                core.observer.counters.held(hold.held_for());
                result
            }
            ReleaseKind::Lost { reason, last, .. } => {
                // After a request without a reply, the lock ends with its lease.
                if let Some(Ok(reply)) = result {
                    report_late_release(core, hold, &reply);
                }
                if last {
                    core.queue.close(hold);
                }
                Err(hold.lost_error(reason))
            }
        }
    }
}

/// Evaluates the reply to the release of the last level.
fn released(core: &Core, hold: &Hold, result: Result<Reply, NoReply>) -> Result<()> {
    let reply = match result {
        Ok(reply) => reply,
        Err(no_reply) => return Err(release_failed(core, hold, no_reply.error)),
    };
    let verdict = script::verdict(&reply.reply);
    match verdict.map_err(|error| core.redis.refusal(hold.key(), error))? {
        // An earlier copy of this request has released the lock.
        Verdict::Lost(_) if reply.lost_copies.is_ambiguous() => {}
        Verdict::Lost(reason) => return Err(lost_on_release(hold, reason)),
        Verdict::Done => {}
    }
    Ok(())
}

/// Hands a release without a reply to the background. Returns the error of the call.
fn release_failed(core: &Core, hold: &Hold, error: Error) -> Error {
    if matches!(error, Error::WrongType { .. }) {
        return lost_on_release(hold, LostReason::Taken);
    }
    // The owner id must not be used again while a release of it is under way.
    owner::retire();
    if hold.kept_in_redis().is_some() {
        // The lock must stay in Redis for a while. It ends with the rest of its lease.
        return error;
    }
    let key = hold.key().clone();
    core.watchdog
        .release_orphan(key, hold.owner(), hold.lease_ends().left());
    error
}

/// Ends a hold as lost because the lock was gone before its release.
fn lost_on_release(hold: &Hold, reason: LostReason) -> Error {
    hold.lose_on_release(reason);
    hold_requests::loss_error(hold, reason)
}

/// Reports a lost hold whose lock was still in Redis and had to be released.
fn report_late_release(core: &Core, hold: &Hold, reply: &Reply) {
    let late_by = Moment::now().since(hold.expires());
    if matches!(script::verdict(&reply.reply), Ok(Verdict::Done)) && late_by > Duration::ZERO {
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
