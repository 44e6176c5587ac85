//! Periods of time.

/// A period, in nanoseconds of the clock of the log; `to` is `u64::MAX` if it has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: u64,
    pub to: u64,
}

impl Span {
    /// The length of the overlap, in nanoseconds.
    pub fn shared(self, other: Self) -> u64 {
        self.to
            .min(other.to)
            .saturating_sub(self.from.max(other.from))
    }
}
