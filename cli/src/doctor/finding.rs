//! The result of a check.

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// Locks work, but not as well or as reliably as they should.
    Warning,
    /// Locks do not work, or not safely.
    Failure,
    /// The check was not possible.
    Unknown,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// What to do. Every warning and every failure has it.
    pub(super) advice: Option<String>,
}

/// A finding about a server, by the name of the check.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) server: String,
    pub(super) check: &'static str,
    pub(super) finding: Finding,
}

impl Verdict {
    /// For scripts.
    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// A finding without advice.
    pub(super) fn of(self, found: impl Into<String>) -> Finding {
        Finding {
            verdict: self,
            found: found.into(),
            advice: None,
        }
    }

    /// A finding, and what to do about it.
    pub(super) fn advise(self, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding {
            advice: Some(advice.into()),
            ..self.of(found)
        }
    }
}

impl Line {
    pub(super) fn new(server: &str, check: &'static str, finding: Finding) -> Self {
        let server = server.into();
        Self {
            server,
            check,
            finding,
        }
    }

    pub(super) fn is_failure(&self) -> bool {
        self.finding.verdict == Verdict::Failure
    }
}
