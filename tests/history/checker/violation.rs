//! The violations that the checker reports.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// A short name of the kind.
    pub kind: &'static str,
    pub at: u64,
    what: String,
}

impl Violation {
    pub(super) fn new(kind: &'static str, at: u64, what: String) -> Self {
        Self { kind, at, what }
    }

    /// The result of a call breaks its documentation.
    pub(super) fn wrong_result(call: super::HoldId, answer: &str, at: u64) -> Self {
        Self::new("wrong result", at, format!("{call} returned: {answer}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, at, what } = self;
        write!(f, "{kind} at {at}: {what}")
    }
}
