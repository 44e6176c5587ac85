//! What this process holds, and who waits for it at home.

mod hold;
mod queue;

pub(crate) use hold::{Hold, LevelId, Popped};
pub(crate) use queue::{LocalQueue, Place, Turn};
