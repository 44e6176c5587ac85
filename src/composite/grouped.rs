//! Requests about several grants: those of one client whose keys are in one slot share a request.

use std::sync::Arc;

use redis::Value;

use super::needed::Needed;
use crate::base::{CallBudget, List, LockKey, Moment};
use crate::core::Core;
use crate::engine::GrantReply;
use crate::error::{Cause, Result};
use crate::protocol::{Verdict, verdict, verdicts};
use crate::request::{NoReply, Reply, Request};
use crate::script::Call;

/// A call about one grant.
pub(super) struct GrantRequest<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) key: &'a LockKey,
    pub(super) call: Call,
}

impl GrantRequest<'_> {
    /// Makes the watchdog repeat the call until there is a reply, or until this moment.
    pub(super) fn later(self, until: Moment) {
        let watchdog = &self.core.watchdog;
        let _ = watchdog.release_orphan(self.key.clone(), self.call, until);
    }
}

/// The indices of the locks of each group: those of one client in one slot, for which `may_share`
/// is true.
pub(super) fn group<'a>(
    locks: impl Iterator<Item = (&'a Arc<Core>, &'a LockKey)>,
    may_share: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let batch = |(core, key): (&Arc<Core>, &LockKey)| (core.number, core.redis.topology.batch(key));
    let batches: Vec<(u64, u16)> = locks.map(batch).collect();
    let mut sorted: Vec<usize> = (0..batches.len()).collect();
    sorted.sort_by_key(|&at| batches[at]);
    let is_same =
        |&one: &usize, &other: &usize| batches[one] == batches[other] && may_share(one, other);
    sorted.chunk_by(is_same).map(<[usize]>::to_vec).collect()
}

/// Sends these calls, and returns the reply or the error of each.
pub(super) fn request_each(
    requests: &[&GrantRequest<'_>],
    needed: Needed,
    budget: &CallBudget,
) -> Vec<Result<GrantReply>> {
    let places = requests.iter().map(|request| (request.core, request.key));
    let is_like = |one: usize, other: usize| requests[one].call.is_like(&requests[other].call);
    let groups = group(places, is_like);
    let most = |group: &[usize]| requests[group[0]].call.most_joined();
    let groups = groups.iter().flat_map(|group| group.chunks(most(group)));
    let groups: Vec<&[usize]> = groups.collect();
    let joined = |group: &&[usize]| {
        let (first, others) = (&requests[group[0]], &group[1..]);
        let calls = others.iter().map(|&at| &requests[at].call);
        let call = calls.fold(first.call.clone(), Call::join);
        Request {
            others: others.iter().map(|&at| requests[at].key).collect(),
            ..Request::new(&first.core.redis, first.key, call)
        }
    };
    let joined: Vec<Request<'_>> = groups.iter().map(joined).collect();
    let replies = needed.request(&joined, is_done, |_| None, budget);
    let mut results: Vec<(usize, Result<GrantReply>)> = Vec::with_capacity(requests.len());
    for ((group, request), reply) in groups.into_iter().zip(&joined).zip(replies) {
        let core = requests[group[0]].core;
        let replies = grant_replies(core, request, reply, budget);
        results.extend(group.iter().copied().zip(replies));
    }
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The replies about the locks of this request. If it failed, the first lock has the cause.
fn grant_replies(
    core: &Core,
    request: &Request<'_>,
    result: Result<Reply, NoReply>,
    budget: &CallBudget,
) -> List<Result<GrantReply>> {
    let keys = || std::iter::once(request.lock).chain(request.others.iter().copied());
    let decoded = result
        .map_err(|no_reply| *no_reply.error)
        .and_then(|reply| {
            let verdicts = verdicts(&reply.reply, 1 + request.others.len());
            let verdicts = verdicts.map_err(|error| request.refusal(error))?;
            let replies = keys().zip(verdicts);
            Ok(replies
                .map(|(key, verdict)| Ok(GrantReply::new(core, key, verdict, &reply)))
                .collect())
        });
    decoded.unwrap_or_else(|error| {
        let unclear = |key: &LockKey| {
            let cause = "no clear reply to a request for several locks";
            request.client.unavailable(key, budget, Cause::from(cause))
        };
        let others = keys().skip(1).map(unclear);
        std::iter::once(error).chain(others).map(Err).collect()
    })
}

/// True if Redis had all grants, and executed the request.
fn is_done(reply: &Value) -> bool {
    match reply {
        Value::Array(replies) => replies.iter().all(is_done),
        reply => verdict(reply).is_ok_and(Verdict::is_done),
    }
}
