//! The parts of an acquired lock, and how several parts are requested and released together.

use std::sync::Arc;

use redis::Value;

use super::release::{self, Release};
use crate::base::call_budget::CallBudget;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Hold, LevelId};
use crate::request::{Enough, NoReply, Reply, Request, broadcast, request_batch};
use crate::script::{self, Call, Verdict};

/// One part of an acquired lock: a level of a hold. Dropping it releases nothing.
#[derive(Debug)]
pub(super) struct HeldPart {
    pub(super) core: Arc<Core>,
    pub(super) hold: Arc<Hold>,
    pub(super) level: LevelId,
}

/// A level to release: the one with this id, or the newest one without a guard.
pub(super) type Level<'a> = (&'a Arc<Core>, &'a Hold, Option<LevelId>);

/// How many parts of a lock are needed, which decides how requests are sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Needed {
    /// All parts. Each request is retried until there is a reply.
    All,
    /// This many of the servers. Each gets one request, and the call ends when enough have replied.
    Majority(usize),
}

impl Needed {
    /// The number of needed parts, of `parts` in all.
    pub(super) fn of(self, parts: usize) -> usize {
        match self {
            Self::All => parts,
            Self::Majority(needed) => needed,
        }
    }

    /// Sends a request for each part. Requests to one server are sent together.
    pub(super) fn request(
        self,
        requests: &[Request<'_>],
        is_good: fn(&Value) -> bool,
        next_call: impl FnMut(usize) -> Option<Call>,
        budget: &CallBudget,
    ) -> Vec<Result<Reply, NoReply>> {
        match self {
            Self::All => request_batch(requests, next_call, budget.reply_deadline(), budget),
            Self::Majority(needed) => {
                broadcast(requests, Enough { needed, is_good }, next_call, budget)
            }
        }
    }
}

/// Releases these parts.
pub(super) fn release_all(held: &[HeldPart], needed: Needed, budget: &CallBudget) -> Result<()> {
    let levels = held
        .iter()
        .map(|held| (&held.core, &*held.hold, Some(held.level)));
    release_levels(levels, needed, budget)
}

/// Releases a level of each of these holds, the last one first. A release without a reply goes on
/// in the background.
pub(super) fn release_levels<'a>(
    levels: impl ExactSizeIterator<Item = Level<'a>>,
    needed: Needed,
    budget: &CallBudget,
) -> Result<()> {
    let mut levels: Vec<Level<'a>> = levels.collect();
    if let (Needed::All, &[(core, hold, level)]) = (needed, &levels[..]) {
        return release::release(core, hold, level, budget);
    }
    // In reverse order, because other clients and threads wait for the first name. When they get
    // it, the others are free.
    levels.reverse();
    let releases: Vec<Result<Release<'_>>> = levels
        .into_iter()
        .map(|(core, hold, level)| Release::begin(core, hold, level))
        .collect();
    let requested: Vec<(&Release<'_>, Request<'_>)> = releases
        .iter()
        .flatten()
        .filter_map(|release| {
            let request = Request {
                client: &release.core().redis,
                lock: release.key(),
                call: release.call()?,
            };
            Some((release, request))
        })
        .collect();
    let (requested, requests): (Vec<_>, Vec<_>) = requested.into_iter().unzip();
    let is_good = |reply: &Value| matches!(script::verdict(reply), Ok(Verdict::Done));
    let next_call = |index: usize| requested[index].next_call();
    let mut replies = needed
        .request(&requests, is_good, next_call, budget)
        .into_iter();
    let replied: Vec<Result<_>> = releases
        .into_iter()
        .map(|release| {
            let release = release?;
            let reply = release.has_call().then(|| replies.next()).flatten();
            let reply = reply.map(|reply| release.check_reply(reply?, budget));
            Ok((release, reply))
        })
        .collect();
    let results: Vec<Result<()>> = replied
        .into_iter()
        .map(|replied| replied.and_then(|(release, reply)| release.finish(reply)))
        .collect();
    let needed = needed.of(results.len());
    combine(results.into_iter().rev(), needed)
}

/// Combines the results of all parts. `Ok` if at least `needed` are. Otherwise the first error: a
/// loss if the losses alone leave too few parts, else another error before a loss.
pub(super) fn combine(
    results: impl ExactSizeIterator<Item = Result<()>>,
    needed: usize,
) -> Result<()> {
    let failures_allowed = results.len().saturating_sub(needed);
    let errors: Vec<Error> = results.filter_map(Result::err).collect();
    if errors.len() <= failures_allowed {
        return Ok(());
    }
    let (losses, others): (Vec<Error>, Vec<Error>) = errors
        .into_iter()
        .partition(|error| matches!(error, Error::Lost { .. }));
    let is_lost = losses.len() > failures_allowed;
    let (first, second) = if is_lost {
        (losses, others)
    } else {
        (others, losses)
    };
    match first.into_iter().chain(second).next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The client with the longest command timeout. It sets the deadlines of a call to several clients.
pub(super) fn slowest<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> Option<&'a Arc<Core>> {
    cores.max_by_key(|core| core.command_timeout)
}
