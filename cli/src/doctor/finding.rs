//! The result of a check.

/// The percentage of a limit from which there is a warning.
const NEARLY_FULL: u64 = 90;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// Information; locks work.
    Note,
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

impl Finding {
    /// Ok, unless there is trouble: how severe it is, and what to do.
    pub(super) fn of(found: impl Into<String>, trouble: Option<(Verdict, &str)>) -> Self {
        match trouble {
            Some((verdict, advice)) => verdict.advise(found, advice),
            None => Verdict::Ok.of(found),
        }
    }

    /// A warning if little is left of a limit, which is reached at 100 %.
    pub(super) fn of_use(found: impl Into<String>, percent: u64, advice: &str) -> Self {
        let is_nearly_full = percent >= NEARLY_FULL;
        Self::of(found, is_nearly_full.then_some((Verdict::Warning, advice)))
    }
}

impl Line {
    pub(super) fn is_failure(&self) -> bool {
        self.finding.verdict == Verdict::Failure
    }
}
