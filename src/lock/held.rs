//! What a call that took a lock has, and what comes of asking several of these together.

use std::sync::Arc;

use redis::Value;

use super::release::{self, Leaving};
use crate::conn::{Enough, Question, ask_all};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Hold, LevelId};
use crate::patience::Patience;
use crate::script::{self, Verdict};

/// A level of a hold, and what it takes to give it back. Dropping it gives nothing back.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) core: Arc<Core>,
    pub(super) hold: Arc<Hold>,
    pub(super) level: LevelId,
}

/// What is given back: the level that is named, or the newest without a guard.
pub(super) type Level<'a> = (&'a Arc<Core>, &'a Hold, Option<LevelId>);

/// Gives all of them back, the last one first, and tries every one.
pub(super) fn release_all(held: &[Held], needed: usize, patience: &Patience) -> Result<()> {
    let levels = held
        .iter()
        .map(|held| (&held.core, &*held.hold, Some(held.level)));
    release_levels(levels, needed, patience)
}

/// The same for a level of each of these holds.
pub(super) fn release_levels<'a>(
    levels: impl DoubleEndedIterator<Item = Level<'a>> + ExactSizeIterator + Clone,
    needed: usize,
    patience: &Patience,
) -> Result<()> {
    if are_apart(levels.clone().map(|(core, ..)| core)) {
        return release_at_once(levels, needed, patience);
    }
    let release = |(core, hold, level): Level<'_>| release::release(core, hold, level, patience);
    together(levels.rev().map(release), needed)
}

/// Several, each of a client of its own: all can be asked at once.
pub(super) fn are_apart<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> bool {
    let mut ids = Vec::new();
    for core in cores {
        if ids.contains(&core.id) {
            return false;
        }
        ids.push(core.id);
    }
    ids.len() > 1
}

/// Gives up a level of each of several holds, each of a client of its own, at the speed of those servers
/// that answer; the others are told in the background.
pub(super) fn release_at_once<'a>(
    levels: impl Iterator<Item = Level<'a>>,
    needed: usize,
    patience: &Patience,
) -> Result<()> {
    let leaving: Vec<Result<Leaving<'_>>> = levels
        .map(|(core, hold, level)| Leaving::begin(core, hold, level))
        .collect();
    let questions: Vec<Question<'_>> = leaving
        .iter()
        .flatten()
        .filter_map(|leaving| {
            Some(Question {
                connections: &leaving.core().connections,
                lock: leaving.key(),
                call: leaving.call()?,
            })
        })
        .collect();
    let is_good = |reply: &Value| matches!(script::verdict(reply), Ok(Verdict::Done));
    let enough = Enough { needed, is_good };
    let mut answers = ask_all(&questions, enough, patience).into_iter();
    let mut good = answers
        .as_slice()
        .iter()
        .filter(|answer| answer.is_ok())
        .count();
    let answered: Vec<Result<_>> = leaving
        .into_iter()
        .map(|leaving| {
            let leaving = leaving?;
            let mut answer = leaving.call().and_then(|_| answers.next());
            // A connection that was cut while it was idle says nothing of its server.
            let is_silent = leaving.core().connections.is_suspect();
            if good < needed && !is_silent && matches!(&answer, Some(Err(_))) {
                answer = leaving.ask_again(answer, patience);
                good += usize::from(matches!(&answer, Some(Ok(_))));
            }
            Ok((leaving, answer))
        })
        .collect();
    // The turn at the first server is what the next thread of this process waits for: it comes last, when
    // those at all the others are to be had.
    let results: Vec<Result<()>> = answered
        .into_iter()
        .rev()
        .map(|answered| answered.and_then(|(leaving, answer)| leaving.finish(answer)))
        .collect();
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
