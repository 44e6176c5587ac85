//! What this process holds, and who waits for it at home.

mod bell;
mod hold;
mod levels;
mod lost;
mod naming;
mod queue;
mod quorum;
mod silence;
mod tenure;

pub(crate) use hold::{Grant, Hold, Popped};
pub(crate) use levels::LevelId;
pub(crate) use naming::Written;
pub(crate) use queue::{LinedUp, LocalQueue, Place, Turn};
pub(crate) use quorum::Quorum;
