//! What a call that took a lock has, and what comes of asking several of these together.

use std::sync::Arc;

use super::release;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::local::{Hold, LevelId};
use crate::patience::Patience;

/// A level of a hold, and what it takes to give it back. Dropping it gives nothing back.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) core: Arc<Core>,
    pub(super) hold: Arc<Hold>,
    pub(super) level: LevelId,
}

impl Held {
    fn release(&self, patience: &Patience) -> Result<()> {
        release::release(&self.core, &self.hold, Some(self.level), patience)
    }
}

/// Gives all of them back, the last one first, and tries every one.
pub(super) fn release_all(held: &[Held], needed: usize, patience: &Patience) -> Result<()> {
    let results = held.iter().rev().map(|held| held.release(patience));
    together(results, needed)
}

/// Good if `needed` of the results are; else the first error, a loss before all others. All results
/// are waited for.
pub(super) fn together(results: impl Iterator<Item = Result<()>>, needed: usize) -> Result<()> {
    let mut good = 0;
    let mut first = None;
    for result in results {
        match result {
            Ok(()) => good += 1,
            Err(error) => {
                let is_loss = |error: &Error| matches!(error, Error::Lost { .. });
                if first
                    .as_ref()
                    .is_none_or(|first| is_loss(&error) && !is_loss(first))
                {
                    first = Some(error);
                }
            }
        }
    }
    match first {
        Some(error) if good < needed => Err(error),
        _ => Ok(()),
    }
}

/// The client with the longest time-outs, by which those of a call to several are measured.
pub(super) fn slowest<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> Option<&'a Arc<Core>> {
    cores.max_by_key(|core| core.command_timeout)
}
