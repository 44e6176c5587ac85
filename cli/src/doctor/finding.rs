//! The result of a check.

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// Information; there is nothing to do.
    Note,
    /// Locks work, but not as well or as reliably as they should.
    Warning,
    /// Locks do not work, or not safely.
    Failure,
    /// The check was not possible.
    Unknown,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// What to do. Every warning and every failure has it.
    pub(super) advice: Option<String>,
}

impl Verdict {
    /// For scripts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Failure => "failure",
            Self::Unknown => "unknown",
        }
    }

    /// For people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Failure => "FAILURE",
            other => other.name(),
        }
    }
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, found.into(), None)
    }

    pub(super) fn note(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Note, found.into(), None)
    }

    pub(super) fn unknown(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unknown, found.into(), None)
    }

    pub(super) fn warning(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Warning, found.into(), Some(advice.into()))
    }

    pub(super) fn failure(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Failure, found.into(), Some(advice.into()))
    }

    fn new(check: &'static str, verdict: Verdict, found: String, advice: Option<String>) -> Self {
        Self {
            check,
            verdict,
            found,
            advice,
        }
    }

    pub(super) fn is_failure(&self) -> bool {
        self.verdict == Verdict::Failure
    }
}
