//! Questions to Redis that were asked in vain.

use crate::base::clock::Moment;

#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// The first of them.
    pub(super) since: Moment,
    /// The last one was answered, but only so many replicas confirmed what was granted.
    pub(super) confirmed: Option<u32>,
}

impl Silence {
    pub(super) fn from_now() -> Self {
        Self {
            since: Moment::now(),
            confirmed: None,
        }
    }
}
