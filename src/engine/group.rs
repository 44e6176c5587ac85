//! Requests about grants: those of one client whose keys are in one slot share a request.

use std::sync::Arc;

use redis::Value;

use super::held::Needed;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::core::Core;
use crate::error::Result;
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
    /// Makes the watchdog repeat the call until there is a reply, or until this moment. False if
    /// the watchdog has ended.
    pub(super) fn later(self, until: Moment) -> bool {
        let watchdog = &self.core.watchdog;
        watchdog.release_orphan(self.key.clone(), self.call, until)
    }
}

/// The reply to a call about one grant.
pub(super) struct GrantReply {
    pub(super) verdict: Verdict,
    /// A moment before the request was sent.
    pub(super) asked: Moment,
    /// Earlier copies of the request may have been executed.
    pub(super) is_ambiguous: bool,
    /// An earlier copy was sent to another server.
    pub(super) reached_another_server: bool,
}

impl GrantReply {
    fn new(verdict: Verdict, reply: &Reply) -> Self {
        Self {
            verdict,
            asked: reply.asked,
            is_ambiguous: reply.lost_copies.is_ambiguous(),
            reached_another_server: reply.lost_copies.reached_another_server(),
        }
    }
}

/// The indices of the parts of each group, in the order of the first part of each. Two parts with
/// these indices are in one group only if `may_share` is true for them.
pub(super) fn group<'a>(
    parts: impl Iterator<Item = (&'a Arc<Core>, &'a LockKey)>,
    may_share: impl Fn(usize, usize) -> bool,
) -> List<List<usize>> {
    let mut groups: List<List<usize>> = List::new();
    let places: Vec<(&Arc<Core>, u16)> = parts
        .map(|(core, key)| (core, core.redis.topology.batch(key)))
        .collect();
    for (at, (core, number)) in places.iter().enumerate() {
        let is_same = |group: &&mut List<usize>| {
            let (first, of_first) = &places[group[0]];
            Arc::ptr_eq(first, core) && of_first == number && may_share(group[0], at)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(at),
            None => groups.push(List::from([at])),
        }
    }
    groups
}

/// Sends these calls, and returns the reply or the error of each.
pub(super) fn request_each(
    requests: &[GrantRequest<'_>],
    needed: Needed,
    budget: &CallBudget,
) -> List<Result<GrantReply>> {
    let places = requests.iter().map(|request| (request.core, request.key));
    let is_like = |one: usize, other: usize| requests[one].call.is_like(&requests[other].call);
    let groups = group(places, is_like);
    let most = |group: &List<usize>| requests[group[0]].call.most_joined();
    let groups = groups.iter().flat_map(|group| group.chunks(most(group)));
    let groups: List<List<usize>> = groups.map(List::from_slice).collect();
    let joined = |group: &List<usize>| {
        let (first, others) = (&requests[group[0]], &group[1..]);
        let calls = others.iter().map(|&at| &requests[at].call);
        let call = calls.fold(first.call.clone(), Call::join);
        Request {
            others: others.iter().map(|&at| requests[at].key).collect(),
            ..Request::new(&first.core.redis, first.key, call)
        }
    };
    let joined: List<Request<'_>> = groups.iter().map(joined).collect();
    let replies = needed.request(&joined, is_done, |_| None, budget);
    let mut results: Vec<(usize, Result<GrantReply>)> = Vec::with_capacity(requests.len());
    for ((group, request), reply) in groups.into_iter().zip(&joined).zip(replies) {
        results.extend(group.into_iter().zip(grant_replies(request, reply, budget)));
    }
    results.sort_unstable_by_key(|(at, _)| *at);
    let results = requests.iter().zip(results);
    results
        .map(|(request, (_, result))| {
            result.inspect(|reply| note_called(request.core, request.key, reply))
        })
        .collect()
}

/// Sends these releases of grants that no thread uses, and whose leases end at `ends` at the
/// latest. What gets no reply in time is released in the background.
pub(super) fn release_unused(
    releases: List<GrantRequest<'_>>,
    ends: Moment,
    needed: Needed,
    budget: &CallBudget,
) {
    if !releases.is_empty() {
        let replies = request_each(&releases, needed, budget);
        let releases = releases.into_iter().zip(replies);
        let unclear = releases.filter(|(_, reply)| reply.is_err());
        unclear.for_each(|(release, _)| _ = release.later(ends));
    }
}

/// Sends this call until there is a clear reply.
pub(super) fn request_grant(
    core: &Core,
    key: &LockKey,
    call: Call,
    budget: &CallBudget,
) -> Result<GrantReply> {
    let reply = core.redis.request(key, call, budget);
    let reply = reply.map_err(|no_reply| no_reply.error)?;
    let verdicts = verdicts(&reply.reply, 1);
    let verdicts = verdicts.map_err(|error| core.redis.refusal(key, error))?;
    let reply = GrantReply::new(verdicts[0], &reply);
    note_called(core, key, &reply);
    Ok(reply)
}

/// Makes the watchdog look after the line if the script has called a client.
fn note_called(core: &Core, key: &LockKey, reply: &GrantReply) {
    if reply.verdict.has_called() {
        core.watchdog.called(key);
    }
}

/// The replies about the locks of this request. If it failed, the first lock has the cause.
fn grant_replies(
    request: &Request<'_>,
    result: Result<Reply, NoReply>,
    budget: &CallBudget,
) -> List<Result<GrantReply>> {
    let decoded = result.map_err(|no_reply| no_reply.error).and_then(|reply| {
        let verdicts = verdicts(&reply.reply, 1 + request.others.len());
        let verdicts = verdicts
            .map_err(|error| request.refusal(error))?
            .into_iter();
        Ok(verdicts
            .map(|verdict| Ok(GrantReply::new(verdict, &reply)))
            .collect())
    });
    decoded.unwrap_or_else(|error| {
        let unclear = |key: &&LockKey| {
            let cause = "no clear reply to a request for several locks";
            request.client.unavailable(key, budget, cause.into())
        };
        let others = request.others.iter().map(unclear);
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
