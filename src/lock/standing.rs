//! Questions about a hold that is believed to stand, and about a lock whoever holds it.

use std::time::Duration;

use redis::{RedisResult, Value};

use super::held::{Held, Needed, combine};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::core::Core;
use crate::error::{Error, LostReason, Result};
use crate::lease::whole_millis;
use crate::local::{Hold, Written};
use crate::request::{NoReply, Reply, Request, lost_copies};
use crate::script::{self, Call, Inspected, Renewal, Verdict};

/// Writes how many levels the hold has from now on, and brings what is left of its lease up to
/// `millis`, which counts from the answer. A hold that turns out not to stand is lost from here on.
pub(super) fn recount(
    core: &Core,
    hold: &Hold,
    count: u32,
    millis: u64,
    budget: &CallBudget,
) -> Result<Moment> {
    let begun = hold.begin_count();
    let request = |owner: &OwnerId| script::recount(hold.key(), owner, count, millis);
    let anew = || Some(request(&hold.retry_count(&begun)));
    let redis = &core.redis;
    let result = redis.request_with_retry(hold.key(), request(&begun), anew, budget);
    recounted(core, hold, result)
}

/// What came of writing a count that was begun.
pub(super) fn recounted(
    core: &Core,
    hold: &Hold,
    result: Result<Reply, NoReply>,
) -> Result<Moment> {
    match result {
        Ok(answer) => {
            let verdict = verdict(core, hold, &answer, script::verdict);
            hold.end_count(match verdict {
                Ok(Ok(_)) => Written::Yes,
                Ok(Err(_)) => Written::No,
                Err(_) => Written::Unknown,
            });
            verdict?.map_err(|reason| lose(core, hold, reason))
        }
        Err(no_reply) => {
            hold.end_count(if no_reply.lost_copies.is_ambiguous() {
                Written::Unknown
            } else {
                Written::No
            });
            Err(failure(core, hold, no_reply.error))
        }
    }
}

/// As [`recount`], but leaves the levels as they are.
fn renew(core: &Core, hold: &Hold, millis: u64, budget: &CallBudget) -> Result<Moment> {
    loop {
        let owner = hold.begin_renewal()?;
        let request = script::renew(&[Renewal {
            key: hold.key().clone(),
            owner: owner.clone(),
            millis,
        }]);
        let result = core.redis.request(hold.key(), request, budget);
        if !lost_copies(&result).is_ambiguous() {
            hold.end_renewal();
        }
        let settled = match result {
            Ok(answer) => verdict(core, hold, &answer, script::only_verdict)?,
            Err(no_reply) => return Err(failure(core, hold, no_reply.error)),
        };
        match settled {
            Ok(asked) => return Ok(asked),
            // Another thread can ask of a hold while its own gives it another name.
            Err(_) if !owner.covers(&hold.owner()) => {}
            Err(reason) => return Err(lose(core, hold, reason)),
        }
    }
}

/// Asks whether the hold stands; if not, it is lost from here on. Without an answer nothing is known.
#[cfg(feature = "cli")]
pub(super) fn confirm(core: &Core, hold: &Hold) {
    let _ = renew(core, hold, 0, &core.budget_for_a_reply());
}

/// Asks whether these holds stand; one that does not is lost from here on. Without an answer
/// nothing is known.
#[cfg(feature = "cli")]
pub(super) fn confirm_all(parts: &[Held], needed: Needed, budget: &CallBudget) {
    let asked: Vec<(&Held, OwnerId)> = parts
        .iter()
        .filter_map(|part| Some((part, part.hold.begin_renewal().ok()?)))
        .collect();
    let requests: Vec<Request<'_>> = asked
        .iter()
        .map(|(part, owner)| renewal(part, owner, 0))
        .collect();
    let answers = needed.request(&requests, stands, |_| None, budget);
    for ((Held { core, hold, .. }, owner), answer) in asked.iter().zip(answers) {
        if !lost_copies(&answer).is_ambiguous() {
            hold.end_renewal();
        }
        match answer.map(|answer| verdict(core, hold, &answer, script::only_verdict)) {
            // Unless it was asked under a name that its own thread has changed meanwhile.
            Ok(Ok(Err(reason))) if owner.covers(&hold.owner()) => {
                lose(core, hold, reason);
            }
            Err(no_reply) => {
                failure(core, hold, no_reply.error);
            }
            Ok(_) => {}
        }
    }
}

fn renewal<'a>(part: &'a Held, owner: &OwnerId, millis: u64) -> Request<'a> {
    let key = part.hold.key();
    Request {
        client: &part.core.redis,
        lock: key,
        call: script::renew(&[Renewal {
            key: key.clone(),
            owner: owner.clone(),
            millis,
        }]),
    }
}

fn stands(reply: &Value) -> bool {
    matches!(script::only_verdict(reply), Ok(Verdict::Done))
}

/// When it was asked whether the hold stands, or how it was lost.
fn verdict(
    core: &Core,
    hold: &Hold,
    answer: &Reply,
    decode: fn(&Value) -> RedisResult<Verdict>,
) -> Result<Result<Moment, LostReason>> {
    let verdict = decode(&answer.reply);
    let verdict = verdict.map_err(|error| core.redis.refusal(hold.key(), error))?;
    Ok(match verdict {
        Verdict::Done => Ok(answer.asked),
        Verdict::Lost(reason) => Err(reason),
    })
}

/// The error of a request about a hold that got no clear answer.
pub(super) fn failure(core: &Core, hold: &Hold, error: Error) -> Error {
    match error {
        // A value of another type stands where our hold was.
        Error::WrongType { .. } => lose(core, hold, LostReason::Taken),
        error => error,
    }
}

/// Ends a hold of which Redis says that it is gone.
pub(super) fn lose(core: &Core, hold: &Hold, reason: LostReason) -> Error {
    core.watchdog.forget(hold.id());
    hold.lose(reason);
    loss(hold, reason)
}

/// The error of a hold that was lost, perhaps by something else than the `reason` found last.
pub(super) fn loss(hold: &Hold, reason: LostReason) -> Error {
    match hold.check() {
        Err(error) => error,
        Ok(()) => hold.lost_error(reason),
    }
}

/// Brings what is left of the lease up to `duration`.
pub(super) fn extend(
    core: &Core,
    hold: &Hold,
    duration: Duration,
    budget: &CallBudget,
) -> Result<()> {
    let millis = whole_millis("lease", duration)?;
    hold.check()?;
    let asked = renew(core, hold, millis, budget)?;
    hold.extended(asked, millis)?;
    core.watchdog.reschedule(hold.id());
    Ok(())
}

/// Brings what is left of the leases of these parts up to what is named for each.
pub(super) fn extend_all(
    parts: &[(&Held, Duration)],
    needed: Needed,
    budget: &CallBudget,
) -> Result<()> {
    if let (Needed::All, &[(part, duration)]) = (needed, parts) {
        return extend(&part.core, &part.hold, duration, budget);
    }
    let millis = |&(_, duration): &(&Held, Duration)| whole_millis("lease", duration);
    let millis: Vec<u64> = parts.iter().map(millis).collect::<Result<_>>()?;
    let owners: Vec<Result<OwnerId>> = parts
        .iter()
        .map(|(part, _)| part.hold.begin_renewal())
        .collect();
    let asked = parts.iter().zip(&owners).zip(&millis);
    let requests: Vec<Request<'_>> = asked
        .filter_map(|(((part, _), owner), &millis)| {
            Some(renewal(part, owner.as_ref().ok()?, millis))
        })
        .collect();
    let answers = needed.request(&requests, stands, |_| None, budget);
    let mut answers = answers.into_iter();
    let finish =
        |((&(part, duration), owner), millis): ((&(&Held, Duration), Result<OwnerId>), u64)| {
            let Held { core, hold, .. } = part;
            let owner = owner?;
            let Some(answer) = answers.next() else {
                return Err(hold.not_held());
            };
            if !lost_copies(&answer).is_ambiguous() {
                hold.end_renewal();
            }
            let answer = answer.map_err(|no_reply| failure(core, hold, no_reply.error))?;
            match verdict(core, hold, &answer, script::only_verdict)? {
                Ok(asked) => {
                    hold.extended(asked, millis)?;
                    core.watchdog.reschedule(hold.id());
                    Ok(())
                }
                // Asked under a name that its own thread has changed meanwhile: nothing is known.
                Err(_) if !owner.covers(&hold.owner()) => extend(core, hold, duration, budget),
                Err(reason) => Err(lose(core, hold, reason)),
            }
        };
    let results: Vec<Result<()>> = parts.iter().zip(owners).zip(millis).map(finish).collect();
    let needed = needed.of(results.len());
    combine(results.into_iter(), needed)
}

/// Who holds a lock, as Redis knows it.
pub(crate) fn inspect(core: &Core, key: &LockKey) -> Result<Option<Inspected>> {
    let reply = ask_once(core, key, script::inspect(key), &core.budget_for_a_reply())?;
    script::inspected(reply).map_err(|error| core.redis.refusal(key, error))
}

/// Deletes a hold, whose ever it is; whether there was one.
pub(crate) fn force_unlock(core: &Core, key: &LockKey) -> Result<bool> {
    let budget = core.budget_for_a_reply();
    let reply = ask_once(core, key, script::force_unlock(key), &budget)?;
    let forced = script::forced(&reply).map_err(|error| core.redis.refusal(key, error))?;
    if let (true, Some(hold)) = (forced, core.queue.current_hold(key.key())) {
        // Not for sure the hold that was deleted, so Redis is asked of this one. Without an answer
        // the watchdog will ask.
        let _ = renew(core, &hold, 0, &budget);
    }
    Ok(forced)
}

fn ask_once(core: &Core, key: &LockKey, request: Call, budget: &CallBudget) -> Result<Value> {
    core.check_process(key.name())?;
    key.check()?;
    match core.redis.request(key, request, budget) {
        Ok(answer) => Ok(answer.reply),
        Err(no_reply) => Err(no_reply.error),
    }
}
