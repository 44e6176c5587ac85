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

/// Brings what is left of the leases of these parts up to what is named for each.
pub(super) fn extend_all(
    parts: &[(&Held, Duration)],
    needed: Needed,
    budget: &CallBudget,
) -> Result<()> {
    let in_millis = |&(part, duration)| Ok((part, whole_millis("lease", duration)?));
    let parts: Vec<_> = parts.iter().map(in_millis).collect::<Result<_>>()?;
    renew_all(&parts, needed, budget)
}

/// Asks whether these parts stand. One that does not is lost from here on.
pub(super) fn confirm_all(parts: &[Held], needed: Needed, budget: &CallBudget) -> Result<()> {
    let parts: Vec<_> = parts.iter().map(|part| (part, 0)).collect();
    renew_all(&parts, needed, budget)
}

/// Asks of each part whether it stands, and brings what is left of its lease up to these
/// milliseconds.
fn renew_all(parts: &[(&Held, u64)], needed: Needed, budget: &CallBudget) -> Result<()> {
    if let (Needed::All, &[(part, millis)]) = (needed, parts) {
        return renew_part(part, millis, budget);
    }
    let owners: Vec<Result<OwnerId>> = parts
        .iter()
        .map(|(part, _)| part.hold.begin_renewal())
        .collect();
    let asked = parts.iter().zip(&owners);
    let requests: Vec<Request<'_>> = asked
        .filter_map(|(&(part, millis), owner)| Some(renewal(part, owner.as_ref().ok()?, millis)))
        .collect();
    let mut answers = needed
        .request(&requests, stands, |_| None, budget)
        .into_iter();
    let finish = |(&(part, millis), owner): (&(&Held, u64), Result<OwnerId>)| {
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
            Ok(asked) => stood(part, asked, millis),
            // Asked under a name that its own thread has changed meanwhile: nothing is known.
            Err(_) if !owner.covers(&hold.owner()) => renew_part(part, millis, budget),
            Err(reason) => Err(lose(core, hold, reason)),
        }
    };
    let results: Vec<Result<()>> = parts.iter().zip(owners).map(finish).collect();
    let needed = needed.of(results.len());
    combine(results.into_iter(), needed)
}

fn renew_part(part: &Held, millis: u64, budget: &CallBudget) -> Result<()> {
    part.hold.check()?;
    let asked = renew(&part.core, &part.hold, millis, budget)?;
    stood(part, asked, millis)
}

/// Records that the part stood when it was asked about, and has these milliseconds from then on.
fn stood(Held { core, hold, .. }: &Held, asked: Moment, millis: u64) -> Result<()> {
    hold.extended(asked, millis)?;
    core.watchdog.reschedule(hold.id());
    Ok(())
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
