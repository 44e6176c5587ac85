//! Unlocks one level of each part. After the last level of a part, the local queue decides whether
//! its grant is handed over, stays idle, or is released in Redis.

use std::sync::Arc;

use super::group::{GrantReply, GrantRequest, request_each, request_grant};
use super::held::{HeldPart, Needed, begin_calls, combine, note_count, reschedule_if_earlier};
use super::parts::Parts;
use crate::base::call_budget::CallBudget;
use crate::base::list::List;
use crate::core::Core;
use crate::error::{Error, LostReason, Result};
use crate::local::{Hold, Released, Unlocked, Unlocks};
use crate::observe::{LockEvent, tell};
use crate::protocol::Verdict;

/// The levels to unlock of a hold.
type Level<'a> = (&'a Arc<Core>, &'a Arc<Hold>, Unlocks);

impl Parts {
    /// Unlocks the newest level of this thread that has no guard.
    pub(crate) fn unlock(&self) -> Result<()> {
        let core = self.check_process()?;
        if let [part] = &*self.list {
            let hold = part.hold().filter(|hold| hold.unguarded() > 0);
            let hold = hold.ok_or_else(|| self.not_held())?;
            return release_level((core, &hold, Unlocks::Newest), || core.budget_to_unlock());
        }
        // The holds that have a level without a guard, lost or not.
        let holds = self.list.iter().filter_map(|part| {
            let hold = part.hold().filter(|hold| hold.unguarded() > 0)?;
            Some((&part.core, hold.unguarded(), hold))
        });
        let holds: List<(&Arc<Core>, usize, Arc<Hold>)> = holds.collect();
        // If one of the needed parts has no level to unlock, none is unlocked.
        if holds.len() < self.needed.of(self.list.len()) {
            return Err(self.not_held());
        }
        // All parts of a level are added and removed together. A lost part lacks the levels that
        // were acquired after its loss. So it has fewer levels without a guard than the other parts
        // until these levels are unlocked.
        let newest = holds.iter().map(|(_, unguarded, _)| *unguarded).max();
        let is_newest = |unguarded| self.needed == Needed::All || Some(unguarded) == newest;
        let levels = holds
            .iter()
            .filter(|(_, unguarded, _)| is_newest(*unguarded));
        let levels: List<Level<'_>> = levels
            .map(|(core, _, hold)| (*core, hold, Unlocks::Newest))
            .collect();
        if levels.len() < self.needed.of(levels.len()) {
            return Err(self.held_otherwise());
        }
        release_levels(&levels, self.needed, || core.budget_to_unlock())
    }
}

/// Releases these parts.
pub(crate) fn release_all(
    held: &[HeldPart],
    needed: Needed,
    budget: impl FnOnce() -> CallBudget<'static>,
) -> Result<()> {
    held.iter().try_for_each(HeldPart::check_process)?;
    let levels = held
        .iter()
        .map(|part| (&part.core, &part.hold, Unlocks::Level(part.level)));
    release_levels(&levels.collect::<List<_>>(), needed, budget)
}

/// Unlocks a level of each of these holds. A release without a reply goes on in the background.
/// `budget` is made only if Redis is asked.
fn release_levels<'a>(
    levels: &[Level<'a>],
    needed: Needed,
    budget: impl FnOnce() -> CallBudget<'static>,
) -> Result<()> {
    let first = match levels {
        [] => return Ok(()),
        &[level] if needed == Needed::All => return release_level(level, budget),
        [(first, ..), ..] => first,
    };
    // Before a grant ends here, because from then on only this thread releases it.
    let calls = begin_calls(levels.iter().map(|(core, ..)| *core));
    let requested = levels.iter();
    let requested = requested.map(|&(core, hold, level)| (hold, level, core.linger));
    let unlocked = first.queue.unlock(&requested.collect::<List<_>>());
    let levels = || levels.iter().map(|&(core, hold, _)| (core, hold));
    let (replies, budget) = request_releases(levels().zip(&unlocked), needed, budget);
    let (mut ended, mut results, mut reports) = (List::new(), List::new(), List::new());
    for ((level, &unlocked), reply) in levels().zip(&unlocked).zip(replies) {
        let reply = reply.zip(budget.as_ref());
        let (result, report) = finish(level, unlocked, reply, &mut ended);
        results.push(result);
        reports.push(report);
    }
    if !ended.is_empty() {
        first.queue.close(&ended);
    }
    // Nothing is left to do. Last, what calls code of the application.
    drop(calls);
    for ((core, hold), report) in levels().zip(reports) {
        report.tell(core, hold);
    }
    let needed = needed.of(results.len());
    combine(results.into_iter(), needed)
}

/// Releases in Redis those of these holds that Redis has to release. Returns their replies.
fn request_releases<'a>(
    levels: impl Iterator<Item = ((&'a Arc<Core>, &'a Arc<Hold>), &'a Unlocked)>,
    needed: Needed,
    budget: impl FnOnce() -> CallBudget<'static>,
) -> (
    List<Option<Result<GrantReply>>>,
    Option<CallBudget<'static>>,
) {
    let mut releases: List<GrantRequest<'_>> = List::new();
    let mut are_asked: List<bool> = List::new();
    for ((core, hold), &unlocked) in levels {
        tell_watchdog(core, hold, unlocked);
        let is_asked = must_release(hold, unlocked);
        if is_asked {
            let (key, call) = (hold.key(), hold.grant().end_call());
            releases.push(GrantRequest { core, key, call });
        }
        are_asked.push(is_asked);
    }
    let budget = (!releases.is_empty()).then(budget);
    let request = |budget| request_each(&releases, needed, budget);
    let mut replies = budget.as_ref().map(request).unwrap_or_default().into_iter();
    let replies = are_asked.into_iter().map(|is_asked| match is_asked {
        true => replies.next(),
        false => None,
    });
    (replies.collect(), budget)
}

/// Unlocks a level of one hold, as [`release_levels`] does. Nearly all calls need no lists.
///
/// A hold that is suspended can [continue](crate::local::LocalQueue::resume).
pub(super) fn release_level(
    (core, hold, unlocks): Level<'_>,
    budget: impl FnOnce() -> CallBudget<'static>,
) -> Result<()> {
    // Before the grant ends here, because from then on only this thread releases it.
    let call = core.watchdog.begin_call();
    let unlocked = core.queue.unlock(&[(hold, unlocks, core.linger)]);
    let unlocked = unlocked.first().copied().unwrap_or(Unlocked::NotHeld);
    tell_watchdog(core, hold, unlocked);
    let budget = must_release(hold, unlocked).then(budget);
    let reply = match &budget {
        Some(budget) => {
            let call = hold.grant().end_call();
            Some((request_grant(core, hold.key(), call, budget), budget))
        }
        None => None,
    };
    let mut ended = List::new();
    let (result, report) = finish((core, hold), unlocked, reply, &mut ended);
    if !ended.is_empty() {
        core.queue.close(&ended);
    }
    // Nothing is left to do. Last, what calls code of the application.
    drop(call);
    report.tell(core, hold);
    result
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
            hold.has_ended_with_majority()
                || matches!(reason, LostReason::Expired | LostReason::RenewalLimit)
                    // Other threads may still use it.
                    && hold.grant().has_ended()
        }
        _ => false,
    }
}

/// Evaluates the unlock of one part. `reply` is set if Redis was asked. Adds a hold without a level
/// to those that have `ended`.
fn finish<'a>(
    (core, hold): (&Arc<Core>, &'a Arc<Hold>),
    unlocked: Unlocked,
    reply: Option<(Result<GrantReply>, &CallBudget)>,
    ended: &mut List<(&'a Arc<Hold>, Option<Released>)>,
) -> (Result<()>, Report) {
    match (unlocked, reply) {
        (Unlocked::NotHeld, _) => {
            let lost = hold.loss_reason().map(|reason| hold.lost_error(reason));
            let error = lost.unwrap_or_else(|| hold.not_held());
            (Err(error), Report::Nothing)
        }
        (Unlocked::Last, Some((reply, budget))) => match released(core, hold, reply, budget) {
            Ok(listeners) => {
                core.observer.counters.releases.add(1);
                ended.push((hold, listeners));
                (Ok(()), Report::Ended("released"))
            }
            Err((error, report)) => {
                ended.push((hold, None));
                (Err(error), report)
            }
        },
        (Unlocked::Lost { reason, last }, reply) => {
            if last {
                ended.push((hold, None));
            }
            // After a request without a reply, the lock ends with its lease.
            let report = match reply {
                Some((Ok(reply), _)) if reply.verdict.is_done() => Report::ReleasedLate,
                _ => Report::Nothing,
            };
            (Err(hold.lost_error(reason)), report)
        }
        // Each release of a last level has a reply or an error.
        (Unlocked::Inner | Unlocked::Last, _) => (Ok(()), Report::Nothing),
        (Unlocked::HandedOver, _) => (Ok(()), Report::Ended("handed_over")),
        (Unlocked::Idle, _) => (Ok(()), Report::Ended("kept")),
        (Unlocked::Shared, _) => (Ok(()), Report::Ended("released")),
    }
}

/// Evaluates the reply to the release of the last level. Returns who else listened, if that is
/// known.
fn released(
    core: &Core,
    hold: &Arc<Hold>,
    reply: Result<GrantReply>,
    budget: &CallBudget,
) -> Result<Option<Released>, (Error, Report)> {
    let unconfirmed = |error: Error| {
        let retried = release_later(core, hold);
        (
            error.of_release(retried, false),
            Report::Ended("unconfirmed"),
        )
    };
    let reply = reply.map_err(unconfirmed)?;
    match reply.verdict {
        Verdict::Done {
            listeners,
            is_called,
        } => {
            let own = u32::from(core.subscriber.is_live(hold.key(), hold.key().channel()));
            Ok(Some(Released {
                asked: reply.asked,
                listeners: listeners.map(|listeners| listeners.saturating_sub(own)),
                is_called,
            }))
        }
        // Either an earlier copy has released the lock, or the lock was lost before.
        Verdict::Lost(_) if reply.reached_another_server => {
            let cause = "a failover during the release: the new server does not have the lock";
            let error = core.redis.unavailable(hold.key(), budget, cause.into());
            Err(unconfirmed(error))
        }
        // An earlier copy of this request has released the lock.
        Verdict::Lost(_) if reply.is_ambiguous => Ok(None),
        Verdict::Lost(reason) => {
            let lost = hold.lose_on_release(reason);
            let report = lost.map_or(Report::Nothing, Report::Lost);
            Err((hold.loss_error(reason), report))
        }
    }
}

/// What the operator learns of the unlock of one part.
enum Report {
    Nothing,
    /// The outcome in the span of the hold.
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
    let (key, call) = (grant.key().clone(), grant.release_call());
    grant.kept_in_redis().is_none() && core.watchdog.release_orphan(key, call, grant.lease_ends())
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
