//! The one way out: a level less, or the release of the lock and of the turn at home.

use std::time::Duration;

use super::standing;
use crate::clock::Moment;
use crate::core::Core;
use crate::error::{Error, LostReason, Result};
use crate::local::{Hold, LevelId, Popped, Written};
use crate::observe::{LockEvent, tell};
use crate::owner;
use crate::patience::Patience;
use crate::script::{self, Verdict};

/// Gives up one level: the newest, or the one that is named.
pub(super) fn release(
    core: &Core,
    hold: &Hold,
    level: Option<LevelId>,
    patience: &Patience,
) -> Result<()> {
    if !core.is_at_home() {
        return Err(hold.not_held());
    }
    // A lease that has run out makes the hold a lost one, whatever Redis still has of it.
    let _ = hold.check();
    let popped = hold.pop(level);
    if hold.may_be_renewed_late() {
        owner::retire();
    }
    match popped {
        Popped::Nothing => Err(hold.not_held()),
        Popped::Inner(count) => {
            let result = standing::recount(core, hold, count, 0, patience);
            if result.is_err() {
                // The level is over all the same, and Redis is to know it.
                hold.end_count(Written::Unknown);
            }
            core.watchdog.reschedule(hold.id(), hold.schedule());
            result.map(drop)
        }
        Popped::Last => {
            // First of all nothing renews it any more, whatever becomes of the release.
            core.watchdog.forget(hold.id());
            let result = give_back(core, hold, patience);
            core.queue.close(hold);
            if result.is_ok() {
                core.observer.counters.releases.add(1);
            }
            core.observer.counters.held(hold.held_for());
            result
        }
        Popped::Lost { reason, last } => {
            if last {
                clear_away(core, hold, reason, patience);
                core.queue.close(hold);
            }
            Err(hold.lost_error(reason))
        }
    }
}

/// Releases the lock in Redis.
fn give_back(core: &Core, hold: &Hold, patience: &Patience) -> Result<()> {
    let request = script::release(hold.key(), &hold.owner());
    let answer = match core.connections.ask(hold.key(), &request, patience) {
        Ok(answer) => answer,
        Err(no_answer) => return Err(not_given_back(core, hold, no_answer.error)),
    };
    let verdict = script::verdict(&answer.reply);
    match verdict.map_err(|error| core.connections.refusal(hold.key(), error))? {
        // Not ours any more: an earlier copy of this very request has released it.
        Verdict::Lost(_) if answer.in_vain.is_ambiguous() => {}
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
    let key = hold.key().clone();
    core.watchdog
        .withdraw(key, hold.owner(), hold.lease_ends().left());
    error
}

/// Redis says that the lock was gone before this release of it.
fn lost(hold: &Hold, reason: LostReason) -> Error {
    hold.lose_on_release(reason);
    standing::loss(hold, reason)
}

/// A hold that is lost to us may still stand in Redis: nobody else should wait for it.
fn clear_away(core: &Core, hold: &Hold, reason: LostReason, patience: &Patience) {
    if !matches!(reason, LostReason::Expired | LostReason::RenewalLimit) {
        return;
    }
    let request = script::release(hold.key(), &hold.owner());
    // Without an answer the lease ends it.
    let Ok(answer) = core.connections.ask(hold.key(), &request, patience) else {
        return;
    };
    let late_by = Moment::now().since(hold.expires());
    if matches!(script::verdict(&answer.reply), Ok(Verdict::Done)) && late_by > Duration::ZERO {
        core.observer.emit(&LockEvent::ReleasedLate {
            lock: hold.key().shared_name(),
            late_by,
        });
        let lock = hold.key().name();
        tell(|| tracing::info!(lock, ?late_by, "a lock was released after its lease"));
    }
}
