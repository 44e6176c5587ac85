//! Requests about a hold (count, renew, confirm), and about a lock whichever owner holds it.

use std::time::Duration;

use redis::{RedisResult, Value};

use super::parts::{HeldPart, Needed, combine};
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

/// Writes the count of the hold to Redis, and prolongs its lease to `millis`. Returns a moment
/// before the request was sent. If Redis does not have the hold any more, it ends as lost.
pub(super) fn recount(
    core: &Core,
    hold: &Hold,
    count: u32,
    millis: u64,
    budget: &CallBudget,
) -> Result<Moment> {
    let begun = hold.begin_count();
    let request = |owner: &OwnerId| script::recount(hold.key(), owner, count, millis);
    let next_call = || Some(request(&hold.retry_count(&begun)));
    let redis = &core.redis;
    let result = redis.request_with_retry(hold.key(), request(&begun), next_call, budget);
    recounted(core, hold, result)
}

/// Evaluates the reply to a request that writes the count.
pub(super) fn recounted(
    core: &Core,
    hold: &Hold,
    result: Result<Reply, NoReply>,
) -> Result<Moment> {
    match result {
        Ok(reply) => {
            let verdict = verdict(core, hold, &reply, script::verdict);
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
            Err(hold_error(core, hold, no_reply.error))
        }
    }
}

/// Prolongs the lease to `millis`; with 0, only confirms that Redis has the hold. Returns a moment
/// before the request was sent. If Redis does not have the hold any more, it ends as lost.
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
        let verdict = match result {
            Ok(reply) => verdict(core, hold, &reply, script::only_verdict)?,
            Err(no_reply) => return Err(hold_error(core, hold, no_reply.error)),
        };
        match verdict {
            Ok(asked) => return Ok(asked),
            // The hold's own thread has changed the owner id meanwhile: send the request again.
            Err(_) if !owner.covers(&hold.owner()) => {}
            Err(reason) => return Err(lose(core, hold, reason)),
        }
    }
}

fn renewal<'a>(part: &'a HeldPart, owner: &OwnerId, millis: u64) -> Request<'a> {
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

fn is_done(reply: &Value) -> bool {
    matches!(script::only_verdict(reply), Ok(Verdict::Done))
}

/// A moment before the request was sent if Redis has the hold, or why the hold is lost.
fn verdict(
    core: &Core,
    hold: &Hold,
    reply: &Reply,
    decode: fn(&Value) -> RedisResult<Verdict>,
) -> Result<Result<Moment, LostReason>> {
    let verdict = decode(&reply.reply);
    let verdict = verdict.map_err(|error| core.redis.refusal(hold.key(), error))?;
    Ok(match verdict {
        Verdict::Done => Ok(reply.asked),
        Verdict::Lost(reason) => Err(reason),
    })
}

/// The error of a request about a hold that got no reply. A hold whose key has a value of another
/// type ends as lost.
fn hold_error(core: &Core, hold: &Hold, error: Error) -> Error {
    match error {
        Error::WrongType { .. } => lose(core, hold, LostReason::Taken),
        error => error,
    }
}

/// Ends a hold as lost that Redis does not have any more. Returns its error.
fn lose(core: &Core, hold: &Hold, reason: LostReason) -> Error {
    core.watchdog.forget(hold.id());
    hold.lose(reason);
    loss_error(hold, reason)
}

/// The error of a lost hold. It has the reason of the loss, which may differ from this `reason`.
pub(super) fn loss_error(hold: &Hold, reason: LostReason) -> Error {
    match hold.check() {
        Err(error) => error,
        Ok(()) => hold.lost_error(reason),
    }
}

/// Prolongs the lease of each part to at least its duration.
pub(super) fn extend_all(
    parts: &[(&HeldPart, Duration)],
    needed: Needed,
    budget: &CallBudget,
) -> Result<()> {
    let in_millis = |&(part, duration)| Ok((part, whole_millis("lease", duration)?));
    let parts: Vec<_> = parts.iter().map(in_millis).collect::<Result<_>>()?;
    renew_all(&parts, needed, budget)
}

/// Asks Redis whether it has these parts. A part that it does not have any more ends as lost.
pub(super) fn confirm_all(parts: &[HeldPart], needed: Needed, budget: &CallBudget) -> Result<()> {
    let parts: Vec<_> = parts.iter().map(|part| (part, 0)).collect();
    renew_all(&parts, needed, budget)
}

/// Prolongs the lease of each part to its milliseconds; with 0, only confirms the part. A part that
/// Redis does not have any more ends as lost.
fn renew_all(parts: &[(&HeldPart, u64)], needed: Needed, budget: &CallBudget) -> Result<()> {
    if let (Needed::All, &[(part, millis)]) = (needed, parts) {
        return renew_part(part, millis, budget);
    }
    let owners: Vec<Result<OwnerId>> = parts
        .iter()
        .map(|(part, _)| part.hold.begin_renewal())
        .collect();
    let requests: Vec<Request<'_>> = parts
        .iter()
        .zip(&owners)
        .filter_map(|(&(part, millis), owner)| Some(renewal(part, owner.as_ref().ok()?, millis)))
        .collect();
    let mut replies = needed
        .request(&requests, is_done, |_| None, budget)
        .into_iter();
    let finish = |(&(part, millis), owner): (&(&HeldPart, u64), Result<OwnerId>)| {
        let HeldPart { core, hold, .. } = part;
        let owner = owner?;
        let Some(reply) = replies.next() else {
            return Err(hold.not_held());
        };
        if !lost_copies(&reply).is_ambiguous() {
            hold.end_renewal();
        }
        let reply = reply.map_err(|no_reply| hold_error(core, hold, no_reply.error))?;
        match verdict(core, hold, &reply, script::only_verdict)? {
            Ok(asked) => record_renewal(part, asked, millis),
            // The hold's own thread has changed the owner id meanwhile: send the request again.
            Err(_) if !owner.covers(&hold.owner()) => renew_part(part, millis, budget),
            Err(reason) => Err(lose(core, hold, reason)),
        }
    };
    let results: Vec<Result<()>> = parts.iter().zip(owners).map(finish).collect();
    let needed = needed.of(results.len());
    combine(results.into_iter(), needed)
}

fn renew_part(part: &HeldPart, millis: u64, budget: &CallBudget) -> Result<()> {
    part.hold.check()?;
    let asked = renew(&part.core, &part.hold, millis, budget)?;
    record_renewal(part, asked, millis)
}

/// Records that Redis prolonged the lease of the part to `millis` by a request sent after `asked`.
fn record_renewal(
    HeldPart { core, hold, .. }: &HeldPart,
    asked: Moment,
    millis: u64,
) -> Result<()> {
    hold.extended(asked, millis)?;
    core.watchdog.reschedule(hold.id());
    Ok(())
}

/// Asks Redis which owner holds a lock.
pub(crate) fn inspect(core: &Core, key: &LockKey) -> Result<Option<Inspected>> {
    let reply = request_once(core, key, script::inspect(key), &core.budget_for_a_reply())?;
    script::inspected(reply).map_err(|error| core.redis.refusal(key, error))
}

/// Frees a lock, whichever owner holds it. Returns false if no owner held it.
pub(crate) fn force_unlock(core: &Core, key: &LockKey) -> Result<bool> {
    let budget = core.budget_for_a_reply();
    let reply = request_once(core, key, script::force_unlock(key), &budget)?;
    let forced = script::forced(&reply).map_err(|error| core.redis.refusal(key, error))?;
    if let (true, Some(hold)) = (forced, core.queue.current_hold(key.key())) {
        // Redis may have had another owner's hold, so this hold is confirmed now. If there is no
        // reply, the watchdog confirms it later.
        let _ = renew(core, &hold, 0, &budget);
    }
    Ok(forced)
}

fn request_once(core: &Core, key: &LockKey, request: Call, budget: &CallBudget) -> Result<Value> {
    core.check_process(key.name())?;
    key.check()?;
    match core.redis.request(key, request, budget) {
        Ok(reply) => Ok(reply.reply),
        Err(no_reply) => Err(no_reply.error),
    }
}
