//! An acquired lock: one level of a hold for each part, and the results of several parts.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::base::call_budget::CallBudget;
use crate::base::list::List;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Grant, Hold, LevelId};
use crate::request::{Enough, NoReply, Reply, Request, broadcast, request_batch};
use crate::script::Call;
use crate::watchdog::ActiveCall;

/// One part of an acquired lock: a level of a hold. Dropping it releases nothing.
#[derive(Clone, Debug)]
pub(crate) struct HeldPart {
    pub(crate) core: Arc<Core>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) level: LevelId,
}

impl HeldPart {
    pub(super) fn first_level(core: &Arc<Core>, hold: Arc<Hold>) -> Self {
        Self {
            core: Arc::clone(core),
            hold,
            level: Hold::FIRST_LEVEL,
        }
    }

    /// Fails unless the lock is held.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_process()?;
        self.hold.check()
    }

    /// Fails in a process that was forked from the client's. Called first, because in such a
    /// process a mutex may stay locked indefinitely.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.core.check_process(self.hold.key().name())
    }

    /// Fails for an exclusive hold if its thread also has a shared one of the same lock: after the
    /// unlock, that one would stay beside what is left in Redis.
    pub(crate) fn check_reads_not(&self) -> Result<()> {
        let hold = &self.hold;
        let who = (hold.thread, true);
        let reader = || self.core.queue.hold_of(&hold.lock, who);
        if !hold.is_shared() && reader().is_some_and(|reader| reader.check().is_ok()) {
            let rule = "this thread also holds the read lock; unlock it before `unlock_after` of \
                        the write lock";
            return Err(misused(hold.key().name(), rule));
        }
        Ok(())
    }

    /// What is left of the lease by the local clock. Ends no hold.
    pub(crate) fn left(&self) -> Result<Duration> {
        self.check_process()?;
        self.hold.left()
    }
}

/// The error of a call for a lock, a semaphore or a latch with a value that breaks this rule.
pub(super) fn refused(name: &str, field: &'static str, value: impl Display, rule: &str) -> Error {
    Error::config(field, value.to_string(), rule).concerning(name)
}

/// The error of a thread that uses a name as this rule forbids.
pub(super) fn misused(name: &str, rule: &str) -> Error {
    refused(name, "name", format_args!("{name:?}"), rule)
}

/// Each of these clients once, if equal ones follow each other.
pub(super) fn distinct<'a>(
    cores: impl Iterator<Item = &'a Arc<Core>>,
) -> impl Iterator<Item = &'a Arc<Core>> {
    let mut last = None;
    cores.filter(move |core| {
        let core = Arc::as_ptr(core);
        last.replace(core) != Some(core)
    })
}

/// False in a process that was forked from that of one of these clients.
pub(crate) fn are_of_this_process<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> bool {
    distinct(cores).all(|core| core.is_same_process())
}

/// Makes shutdowns of these clients wait for this call.
pub(super) fn begin_calls<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> List<ActiveCall<'a>> {
    let mut calls = List::new();
    distinct(cores).for_each(|core| calls.push(core.watchdog.begin_call()));
    calls
}

/// Makes the watchdog write the hold count to Redis if the levels last.
pub(super) fn note_count(core: &Core, hold: &Hold) {
    let grant = hold.grant();
    if grant.begin_count_note() {
        core.watchdog.note(grant.id());
    }
}

/// Makes the watchdog read the schedule of a grant if this hold is due earlier than the watchdog
/// knows, and write the hold count to Redis if the levels last.
pub(super) fn note_level(core: &Core, hold: &Hold) {
    if hold.is_due_earlier() {
        core.watchdog.reschedule(hold.grant().id());
    }
    note_count(core, hold);
}

/// Makes the watchdog read the schedule of a grant that is due earlier than the watchdog knows.
pub(super) fn reschedule_if_earlier(core: &Core, grant: &Grant) {
    if grant.is_due_earlier() {
        core.watchdog.reschedule(grant.id());
    }
}

/// How many parts of a lock are needed, which decides how requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// All parts. Each request is retried until there is a reply.
    All,
    /// This many of the servers. Each gets one request, and the call ends when enough have replied.
    Majority(usize),
}

impl Needed {
    /// The number of needed parts, of `parts` in all.
    pub(crate) fn of(self, parts: usize) -> usize {
        match self {
            Self::All => parts,
            Self::Majority(needed) => needed,
        }
    }

    /// Sends all requests.
    pub(super) fn request(
        self,
        requests: &[Request<'_>],
        is_good: fn(&Value) -> bool,
        next_call: impl FnMut(usize) -> Option<Call>,
        budget: &CallBudget,
    ) -> List<Result<Reply, NoReply>> {
        match self {
            Self::All => request_batch(requests, next_call, budget.reply_deadline(), budget),
            Self::Majority(needed) => {
                broadcast(requests, Enough { needed, is_good }, next_call, budget)
            }
        }
    }
}

/// Removes the members whose check fails. Each is checked once, so an `Ok` means that at least
/// `needed` are left. Otherwise fails as [`combine`] does.
pub(super) fn retain_ok<T>(
    members: &mut List<T>,
    check: impl FnMut(&T) -> Result<()>,
    needed: usize,
) -> Result<()> {
    let checks: List<Result<()>> = members.iter().map(check).collect();
    let mut next = checks.iter();
    members.retain(|_| next.next().is_some_and(Result::is_ok));
    combine(checks.into_iter(), needed)
}

/// Combines the results of all parts, of which there are at least `needed`. `Ok` if that many are.
/// Otherwise the first error: a loss if the losses alone leave too few parts, else another error
/// before a loss.
pub(crate) fn combine(
    mut results: impl ExactSizeIterator<Item = Result<()>>,
    needed: usize,
) -> Result<()> {
    debug_assert!(results.len() >= needed, "too few parts");
    if (results.len(), needed) == (1, 1) {
        return results.next().unwrap_or(Ok(()));
    }
    let allowed = results.len().saturating_sub(needed);
    let mut errors: Vec<Error> = results.filter_map(Result::err).collect();
    if errors.len() <= allowed {
        return Ok(());
    }
    let is_loss = |error: &Error| matches!(error, Error::Lost { .. });
    let is_lost = errors.iter().filter(|error| is_loss(error)).count() > allowed;
    let first = errors.iter().position(|error| is_loss(error) == is_lost);
    Err(errors.swap_remove(first.unwrap_or_default()))
}

/// The client with the longest command timeout. It sets the deadlines of a call to several clients.
pub(crate) fn slowest<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> Option<&'a Arc<Core>> {
    cores.max_by_key(|core| core.command_timeout)
}

/// The largest value that `needed` of these reach.
pub(super) fn reached<T: Ord>(mut values: Vec<T>, needed: usize) -> Option<T> {
    values.sort_unstable_by(|one, other| other.cmp(one));
    values.into_iter().nth(needed.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LostReason;

    #[test]
    fn a_loss_after_the_check_of_a_part_removes_no_needed_part() {
        let mut checks = 0;
        let check = |_: &u8| {
            checks += 1;
            (checks == 1).then_some(()).ok_or(Error::Lost {
                lock: "lock".into(),
                reason: LostReason::Expired,
            })
        };
        let mut parts = List::from([0]);
        retain_ok(&mut parts, check, 1).unwrap();
        assert_eq!(parts.len(), 1);
    }
}
