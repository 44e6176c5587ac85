//! The one way out: a level less, or the release of the lock and of the ticket at home.

use std::time::Duration;

use super::standing;
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

/// Gives up one level: the one that is named, or the newest without a guard.
pub(super) fn release(
    core: &Core,
    hold: &Hold,
    level: Option<LevelId>,
    budget: &CallBudget,
) -> Result<()> {
    let leaving = Leaving::begin(core, hold, level)?;
    let result = leaving.ask(budget);
    leaving.finish(result)
}

/// A level that is given up here, of which Redis is to be told.
#[derive(Debug)]
pub(super) struct Leaving<'a> {
    core: &'a Core,
    hold: &'a Hold,
    what: What,
}

#[derive(Debug)]
enum What {
    /// So many levels stay, to be written under this owner.
    Inner(u32, OwnerId),
    Last,
    Lost {
        reason: LostReason,
        last: bool,
        /// The lock may still be in Redis, and is released so that no client waits for it.
        clears: bool,
    },
}

impl<'a> Leaving<'a> {
    pub(super) fn begin(core: &'a Core, hold: &'a Hold, level: Option<LevelId>) -> Result<Self> {
        if !core.is_same_process() {
            return Err(hold.not_held());
        }
        // A lease that has run out makes the hold a lost one, whatever Redis still has of it.
        let _ = hold.check();
        let popped = hold.pop(level);
        if hold.may_be_renewed_late() {
            owner::retire();
        }
        let what = match popped {
            Popped::Nothing => return Err(hold.not_held()),
            Popped::Inner(count) => What::Inner(count, hold.begin_count()),
            Popped::Last => {
                // First of all nothing renews it any more, whatever becomes of the release.
                core.watchdog.forget(hold.id());
                What::Last
            }
            // Decided once: another thread can change what the hold says.
            Popped::Lost { reason, last } => What::Lost {
                reason,
                last,
                clears: last
                    && (hold.has_ended_with_majority()
                        || matches!(reason, LostReason::Expired | LostReason::RenewalLimit)),
            },
        };
        Ok(Self { core, hold, what })
    }

    pub(super) fn core(&self) -> &'a Core {
        self.core
    }

    pub(super) fn key(&self) -> &'a LockKey {
        self.hold.key()
    }

    /// What Redis is told.
    pub(super) fn call(&self) -> Option<Call> {
        match &self.what {
            What::Inner(count, owner) => Some(self.recount(*count, owner)),
            What::Last => Some(match self.hold.stays() {
                Some((millis, name)) => {
                    script::leave(self.key(), &self.hold.owner(), millis, &name)
                }
                None => self.release(),
            }),
            What::Lost { clears: true, .. } => Some(self.release()),
            What::Lost { .. } => None,
        }
    }

    fn recount(&self, count: u32, owner: &OwnerId) -> Call {
        script::recount(self.key(), owner, count, 0)
    }

    fn release(&self) -> Call {
        script::release(self.key(), &self.hold.owner())
    }

    /// What Redis is told while an earlier copy of the call may be under way, if that is another
    /// call.
    pub(super) fn call_again(&self) -> Option<Call> {
        match &self.what {
            What::Inner(count, begun) => Some(self.recount(*count, &self.hold.retry_count(begun))),
            _ => None,
        }
    }

    /// Tells it until there is an answer.
    pub(super) fn ask(&self, budget: &CallBudget) -> Option<Result<Reply, NoReply>> {
        let call = self.call()?;
        let redis = &self.core.redis;
        let answer = redis.request_with_retry(self.key(), &call, || self.call_again(), budget);
        Some(answer.and_then(|answer| self.judge(answer, budget)))
    }

    /// An answer says nothing of what earlier copies did at another server.
    pub(super) fn judge(&self, answer: Reply, budget: &CallBudget) -> Result<Reply, NoReply> {
        let is_gone = matches!(script::verdict(&answer.reply), Ok(Verdict::Lost(_)));
        if matches!(self.what, What::Last) && is_gone && answer.lost_copies.reached_another_server()
        {
            // An earlier copy has released it, or it was lost before that.
            let cause = "its server was replaced meanwhile, and the new one does not know the hold";
            let redis = &self.core.redis;
            let error = redis.unavailable(self.key(), budget, cause.into());
            return Err(NoReply {
                error,
                lost_copies: answer.lost_copies,
            });
        }
        Ok(answer)
    }

    /// Tells it once more, after a copy of which `before` came.
    pub(super) fn ask_again(
        &self,
        before: Option<Result<Reply, NoReply>>,
        budget: &CallBudget,
    ) -> Option<Result<Reply, NoReply>> {
        let Some(Err(before)) = before else {
            return before;
        };
        if matches!(self.what, What::Inner(..)) {
            // No two copies of a count have one name: the watchdog writes it under another.
            return Some(Err(before));
        }
        Some(match self.ask(budget)? {
            Ok(mut answer) => {
                answer.lost_copies.add(before.lost_copies);
                Ok(answer)
            }
            Err(mut no_reply) => {
                no_reply.lost_copies.add(before.lost_copies);
                Err(no_reply)
            }
        })
    }

    /// Ends it with what Redis answered, if it was asked.
    pub(super) fn finish(self, result: Option<Result<Reply, NoReply>>) -> Result<()> {
        let Self { core, hold, what } = self;
        match what {
            What::Inner(..) => {
                let result = result.map(|result| standing::recounted(core, hold, result));
                if !matches!(result, Some(Ok(_))) {
                    // The level is over all the same, and Redis is to know it.
                    hold.end_count(Written::Unknown);
                }
                core.watchdog.reschedule(hold.id());
                result.map_or(Ok(()), |result| result.map(drop))
            }
            What::Last => {
                let result = result.map_or(Ok(()), |result| given_back(core, hold, result));
                core.queue.close(hold);
                if result.is_ok() {
                    core.observer.counters.releases.add(1);
                }
                core.observer.counters.held(hold.held_for());
                result
            }
            What::Lost { reason, last, .. } => {
                // Without an answer the lease ends it.
                if let Some(Ok(answer)) = result {
                    cleared_away(core, hold, &answer);
                }
                if last {
                    core.queue.close(hold);
                }
                Err(hold.lost_error(reason))
            }
        }
    }
}

/// What came of the release in Redis.
fn given_back(core: &Core, hold: &Hold, result: Result<Reply, NoReply>) -> Result<()> {
    let answer = match result {
        Ok(answer) => answer,
        Err(no_reply) => return Err(not_given_back(core, hold, no_reply.error)),
    };
    let verdict = script::verdict(&answer.reply);
    match verdict.map_err(|error| core.redis.refusal(hold.key(), error))? {
        // Not ours any more: an earlier copy of this very request has released it.
        Verdict::Lost(_) if answer.lost_copies.is_ambiguous() => {}
        Verdict::Lost(reason) => return Err(lost(hold, reason)),
        Verdict::Done => {}
    }
    Ok(())
}

/// What remains to be done after a release without a clear answer.
fn not_given_back(core: &Core, hold: &Hold, error: Error) -> Error {
    if matches!(error, Error::WrongType { .. }) {
        return lost(hold, LostReason::Taken);
    }
    // It goes on in the background, under a name that nobody uses any more.
    owner::retire();
    if hold.stays().is_some() {
        // It is not to be free yet. What is left of its lease ends it.
        return error;
    }
    let key = hold.key().clone();
    core.watchdog
        .release_orphan(key, hold.owner(), hold.lease_ends().left());
    error
}

/// Redis says that the lock was gone before this release of it.
fn lost(hold: &Hold, reason: LostReason) -> Error {
    hold.lose_on_release(reason);
    standing::loss(hold, reason)
}

/// Tells the operator of a lost hold that still stood in Redis, and had to be released.
fn cleared_away(core: &Core, hold: &Hold, answer: &Reply) {
    let late_by = Moment::now().since(hold.expires());
    if matches!(script::verdict(&answer.reply), Ok(Verdict::Done)) && late_by > Duration::ZERO {
        core.observer.emit(&LockEvent::ReleasedLate {
            lock: hold.key().shared_name(),
            late_by,
        });
        let lock = hold.key().shared_name();
        tell(move || {
            tracing::info!(
                lock = &*lock,
                ?late_by,
                "a lock was released after its lease"
            );
        });
    }
}
