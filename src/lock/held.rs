//! What a call that took a lock has, and what comes of asking several of these together.

use std::sync::Arc;

use redis::Value;

use super::release::{self, Leaving};
use crate::base::call_budget::CallBudget;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Hold, LevelId};
use crate::request::{Enough, NoReply, Reply, Request, broadcast, request_batch};
use crate::script::{self, Call, Verdict};

/// A level of a hold, and what it takes to give it back. Dropping it gives nothing back.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) core: Arc<Core>,
    pub(super) hold: Arc<Hold>,
    pub(super) level: LevelId,
}

/// What is given back: the level that is named, or the newest without a guard.
pub(super) type Level<'a> = (&'a Arc<Core>, &'a Hold, Option<LevelId>);

/// How many of the parts of a lock are needed, and so how they are asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Needed {
    /// All: each is asked until there is an answer.
    All,
    /// This many of several servers: each is asked once, at the speed of those that answer.
    Majority(usize),
}

impl Needed {
    /// How many of `parts`.
    pub(super) fn of(self, parts: usize) -> usize {
        match self {
            Self::All => parts,
            Self::Majority(needed) => needed,
        }
    }

    /// Asks all parts. Requests to one server are sent together.
    pub(super) fn ask(
        self,
        requests: &[Request<'_>],
        is_good: fn(&Value) -> bool,
        again: impl FnMut(usize) -> Option<Call>,
        budget: &CallBudget,
    ) -> Vec<Result<Reply, NoReply>> {
        match self {
            Self::All => request_batch(requests, again, budget.reply_deadline(), budget),
            Self::Majority(needed) => broadcast(requests, Enough { needed, is_good }, budget),
        }
    }
}

/// Gives all of these parts back.
pub(super) fn release_all(held: &[Held], needed: Needed, budget: &CallBudget) -> Result<()> {
    let levels = held
        .iter()
        .map(|held| (&held.core, &*held.hold, Some(held.level)));
    release_levels(levels, needed, budget)
}

/// Gives up a level of each of these holds, the last one first. A release without a reply goes on
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
    // In reverse order: other clients and threads wait for the first name, and find the others free
    // when they get it.
    levels.reverse();
    let leaving: Vec<Result<Leaving<'_>>> = levels
        .into_iter()
        .map(|(core, hold, level)| Leaving::begin(core, hold, level))
        .collect();
    let told: Vec<(&Leaving<'_>, Request<'_>)> = leaving
        .iter()
        .flatten()
        .filter_map(|leaving| {
            let question = Request {
                client: &leaving.core().redis,
                lock: leaving.key(),
                call: leaving.call()?,
            };
            Some((leaving, question))
        })
        .collect();
    let (told, requests): (Vec<_>, Vec<_>) = told.into_iter().unzip();
    let is_good = |reply: &Value| matches!(script::verdict(reply), Ok(Verdict::Done));
    let again = |place: usize| told[place].call_again();
    let mut answers = needed.ask(&requests, is_good, again, budget).into_iter();
    let mut good = answers
        .as_slice()
        .iter()
        .filter(|answer| answer.is_ok())
        .count();
    let answered: Vec<Result<_>> = leaving
        .into_iter()
        .map(|leaving| {
            let leaving = leaving?;
            let answer = leaving.call().and_then(|_| answers.next());
            let mut answer = answer.map(|answer| leaving.judge(answer?, budget));
            // A connection that was cut while it was idle says nothing of its server.
            if let Needed::Majority(needed) = needed
                && good < needed
                && !leaving.core().redis.is_suspect()
                && matches!(&answer, Some(Err(_)))
            {
                answer = leaving.ask_again(answer, budget);
                good += usize::from(matches!(&answer, Some(Ok(_))));
            }
            Ok((leaving, answer))
        })
        .collect();
    let results: Vec<Result<()>> = answered
        .into_iter()
        .map(|answered| answered.and_then(|(leaving, answer)| leaving.finish(answer)))
        .collect();
    let needed = needed.of(results.len());
    together(results.into_iter().rev(), needed)
}

/// Good if `needed` of the results are. Else the first error: a loss if too many are lost for `needed` to
/// stand, and otherwise what kept the others from it. All results are waited for.
pub(super) fn together(
    results: impl ExactSizeIterator<Item = Result<()>>,
    needed: usize,
) -> Result<()> {
    let spare = results.len().saturating_sub(needed);
    let errors: Vec<Error> = results.filter_map(Result::err).collect();
    if errors.len() <= spare {
        return Ok(());
    }
    let (losses, others): (Vec<Error>, Vec<Error>) = errors
        .into_iter()
        .partition(|error| matches!(error, Error::Lost { .. }));
    let is_lost = losses.len() > spare;
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

/// The client with the longest time-outs, by which those of a call to several are measured.
pub(super) fn slowest<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> Option<&'a Arc<Core>> {
    cores.max_by_key(|core| core.command_timeout)
}
