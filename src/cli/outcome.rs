//! What the program ends with: a status that scripts can tell apart, and one line that people can read.

use std::fmt;
use std::process::ExitCode;

use super::voice::{one_line, say};
use crate::conn::Nowhere;
use crate::error::Error;

/// The result of everything that the program does.
pub(super) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The answer is no: nobody holds the lock, or it was not to be freed after all.
pub(super) const NOBODY: u8 = 1;
/// What was asked for makes no sense (`EX_USAGE` of sysexits.h).
pub(super) const USAGE: u8 = 64;
/// Redis gave no clear answer, or refused (`EX_UNAVAILABLE`).
pub(super) const UNAVAILABLE: u8 = 69;
/// What was found could not be written (`EX_IOERR`).
pub(super) const OUTPUT: u8 = 74;
/// Somebody else has the lock (`EX_TEMPFAIL`).
pub(super) const HELD: u8 = 75;
/// The lock was lost, or its time was up, before the command had ended.
pub(super) const LOST: u8 = 76;
/// There is such a command, but it may not or cannot be run, as shells say it.
pub(super) const CANNOT_RUN: u8 = 126;
/// There is no such command, as shells say it.
pub(super) const NOT_FOUND: u8 = 127;

/// What each status means, for the manual. `leasehold run` else ends with the status of its command.
pub(super) const MEANINGS: [(u8, &str); 9] = [
    (
        0,
        "It was done. Of run, unless listed here, the command's own status; 128 + n if signal n ended it.",
    ),
    (
        NOBODY,
        "Of show and break: nobody holds the lock, or it was not to be freed after all. Of doctor: something fails.",
    ),
    (USAGE, "The arguments make no sense, or the key is no lock."),
    (UNAVAILABLE, "Redis gave no clear answer, or refused."),
    (OUTPUT, "Standard output could not be written to."),
    (HELD, "Of run: somebody else has the lock."),
    (
        LOST,
        "Of run: the lock was lost, or its time was up, before the command had ended.",
    ),
    (
        CANNOT_RUN,
        "Of run: there is such a command, but it may not or cannot be run.",
    ),
    (NOT_FOUND, "Of run: there is no such command."),
];

/// Why the program ends without having done its work.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: u8,
    message: String,
}

impl Failure {
    pub(super) fn new(status: u8, message: impl fmt::Display) -> Self {
        Self {
            status,
            message: in_options(&message.to_string()),
        }
    }

    pub(super) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    /// Says why, in one line, and ends with the status.
    pub(super) fn report(self) -> ExitCode {
        self.tell();
        ExitCode::from(self.status)
    }

    /// Says why, in one line.
    pub(super) fn tell(&self) {
        say(self);
    }
}

/// In one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.message))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Config { .. } | Error::WrongType { .. } => USAGE,
            Error::HeldByAnother { .. } => HELD,
            Error::Lost { .. } | Error::NotHeld { .. } => LOST,
            _ => UNAVAILABLE,
        };
        Self::new(status, error)
    }
}

/// What the library advises its callers, and what users of the command do instead.
const ADVICE: [(&str, &str); 5] = [
    ("use LockClient::builder_cluster", "say --cluster"),
    ("use LockClient::builder_sentinel", "say --sentinel MASTER"),
    (
        "use LockClient::builder or builder_sentinel",
        "leave out --cluster",
    ),
    (
        "are set by LockClientBuilder::credentials",
        "are those of --user and LEASEHOLD_PASSWORD",
    ),
    ("by ca_certificates", "by --cacert"),
];

/// The settings with which its messages begin.
const SETTINGS: [(&str, &str); 6] = [
    ("ca_certificates is ", "--cacert is "),
    ("client_certificate is ", "--cert is "),
    ("min_replicas is ", "--min-replicas is "),
    ("watchdog_lease is ", "--lease is "),
    ("master is ", "--sentinel is "),
    ("nodes is ", "url is "),
];

/// A message of the library in the words of the command.
pub(super) fn in_options(message: &str) -> String {
    let setting = SETTINGS.iter().find_map(|(setting, option)| {
        let rest = message.strip_prefix(setting)?;
        Some(format!("{option}{rest}"))
    });
    let said = setting.unwrap_or_else(|| message.into());
    ADVICE
        .iter()
        .fold(said, |said, (advice, option)| said.replace(advice, option))
}

impl From<Nowhere> for Failure {
    fn from(nowhere: Nowhere) -> Self {
        match nowhere {
            Nowhere::Ever(error) => error.into(),
            nowhere => Self::new(UNAVAILABLE, nowhere),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_advises_is_told_in_options() {
        let source = include_str!("../conn/hint.rs");
        let (source, _) = source.split_once("#[cfg(test)]").unwrap();
        let is_message = |line: &&str| line.contains('"') && line.contains("LockClient");
        let advice: Vec<&str> = source.lines().filter(is_message).collect();
        assert!(advice.len() >= 5, "{advice:?}");
        for line in advice {
            let said = in_options(line);
            assert!(
                !said.contains("LockClient") && said.contains("--"),
                "{said}"
            );
        }
    }

    #[test]
    fn settings_are_told_by_their_options() {
        for (said, expected) in [
            ("min_replicas is 0: it is 1", "--min-replicas is 0: it is 1"),
            ("url is master is 0", "url is master is 0"),
        ] {
            assert_eq!(in_options(said), expected);
        }
    }
}
