//! The part of the library's module that the grants need.

#[path = "../../src/watchdog/registry.rs"]
mod registry;
#[path = "../../src/watchdog/target.rs"]
mod target;

pub(crate) use registry::{Schedule, TargetId, next_target_id, slack};
pub(crate) use target::{AtShutdown, Renew, Renewal, Step};
