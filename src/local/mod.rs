//! The locks that this process holds, and its threads that wait for them. No I/O.

mod hold;
mod lease_state;
mod levels;
mod loss_notifier;
mod lost;
mod owner_ids;
mod queue;
mod quorum;

pub(crate) use hold::{Grant, Hold, Popped};
pub(crate) use levels::LevelId;
pub(crate) use owner_ids::Written;
pub(crate) use queue::{Enqueued, LocalQueue, QueueEntry, Ticket};
pub(crate) use quorum::Quorum;
