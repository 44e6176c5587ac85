//! How the program ends: an exit status for scripts, and one line for people.
//!
//! The manual (`manual.roff`) and docs/command.md have the meaning of each status. All others come
//! from the command of `leasehold run`, or from a signal.

use std::fmt;
use std::process::ExitCode;

use super::reporter::{one_line, say};
use leasehold::Error;
use leasehold::admin::{RouteError, ServerError};

/// The result of everything that the program does.
pub(super) type Result<T, E = Failure> = std::result::Result<T, E>;

/// No client holds the lock, or the user did not want to free it.
const NOT_HELD: u8 = 1;
/// A check of `leasehold doctor` failed.
pub(super) const CHECK_FAILED: u8 = 1;
/// No command was given.
pub(super) const NO_COMMAND: u8 = 2;
/// The arguments are invalid (`EX_USAGE` of sysexits.h).
pub(super) const USAGE: u8 = 64;
/// Redis gave no clear reply, or refused (`EX_UNAVAILABLE`).
pub(super) const UNAVAILABLE: u8 = 69;
/// Standard output could not be written (`EX_IOERR`).
pub(super) const OUTPUT: u8 = 74;
/// Another client holds the lock (`EX_TEMPFAIL`).
pub(super) const HELD: u8 = 75;
/// The lock was lost before the command or the hold ended.
pub(super) const LOST: u8 = 76;
/// `--max-hold` was over before the command ended. timeout(1) has the same status.
pub(super) const TIME_IS_UP: u8 = 124;
/// The command exists, but it cannot be run. Shells use the same status.
pub(super) const CANNOT_RUN: u8 = 126;
/// The command does not exist. Shells use the same status.
pub(super) const NOT_FOUND: u8 = 127;

/// Why the program failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: u8,
    /// Empty if the status says everything.
    message: String,
}

impl Failure {
    pub(super) fn new(status: u8, message: impl fmt::Display) -> Self {
        Self {
            status,
            message: advised(message),
        }
    }

    /// No client holds the lock, or nothing was freed.
    pub(super) fn not_held(message: impl fmt::Display) -> Self {
        Self::new(NOT_HELD, message)
    }

    pub(super) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    /// Writes the message, unless it is empty, and returns the status.
    pub(super) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            say(&self);
        }
        ExitCode::from(self.status)
    }
}

/// The message in one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.message))
    }
}

/// Fails with the first of these failures of `asked` servers. A majority of the servers of a
/// Redlock is enough, so a minority of failures gives warnings only.
pub(super) fn settle(failures: Vec<Failure>, asked: usize, redlock: bool) -> Result<()> {
    if redlock && failures.len() * 2 < asked {
        for failure in &failures {
            say(failure);
        }
        return Ok(());
    }
    failures.into_iter().next().map_or(Ok(()), Err)
}

impl From<Error> for Failure {
    fn from(mut error: Error) -> Self {
        let status = match error {
            Error::Config { .. } | Error::InvalidArgument { .. } | Error::WrongType { .. } => USAGE,
            Error::HeldByAnother { .. } => HELD,
            Error::Lost { .. } | Error::NotHeld { .. } => LOST,
            _ => UNAVAILABLE,
        };
        let message = match error {
            Error::Config { ref mut field, .. }
            | Error::InvalidArgument {
                argument: ref mut field,
                ..
            } => {
                let option = SETTINGS.iter().find(|(setting, _)| setting == field);
                *field = option.map_or(field, |(_, option)| option);
                error.to_string()
            }
            // The watchdog of the command ends with it.
            Error::NotReleased {
                lock, node, cause, ..
            } => format!(
                "{lock:?}: no clear reply from Redis at {node} to its release in time ({cause}); \
                 it ends by itself within its lease"
            ),
            // The advice of the library is for a thread.
            Error::Lost { lock, reason } => format!("{lock:?} was lost ({reason})"),
            _ => error.to_string(),
        };
        Self::new(status, message)
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let is_absent = !error.is_reply() && !error.cause.is_timeout() && error.hint.is_none();
        let advice = "; check that Redis runs there, or name another server by --url or \
                      LEASEHOLD_URL";
        let advice = if is_absent { advice } else { "" };
        Self::new(UNAVAILABLE, format!("{error}{advice}"))
    }
}

impl From<RouteError> for Failure {
    fn from(error: RouteError) -> Self {
        match error {
            RouteError::Invalid(error) => error.into(),
            RouteError::Refused(error) => error.into(),
            other => Self::new(UNAVAILABLE, other),
        }
    }
}

/// The option of the command for each setting of the library.
const SETTINGS: [(&str, &str); 9] = [
    ("clients", "--redlock"),
    ("ca_certificates", "--cacert"),
    ("client_certificate", "--cert"),
    ("min_replicas", "--min-replicas"),
    ("watchdog_lease", "--lease"),
    ("connect_timeout", "--timeout"),
    ("command_timeout", "--timeout"),
    ("master", "--sentinel"),
    ("nodes", "url"),
];

/// What the library writes in its advice, and the same for users of the command.
const ADVICE: [(&str, &str); 11] = [
    ("LockClient::builder_cluster", "--cluster"),
    ("LockClient::builder_sentinel", "--sentinel MASTER"),
    (
        "use LockClient::builder or builder_sentinel",
        "leave out --cluster",
    ),
    (
        "use the addresses of the sentinels (port 26379 by default)",
        "name the addresses of the sentinels (port 26379 by default), or leave out --sentinel",
    ),
    (
        "out of the URL and of LockClientBuilder::credentials",
        "out of the URL, leave out --user, and unset LEASEHOLD_PASSWORD",
    ),
    (
        "LockClientBuilder::credentials or credentials_provider",
        "--user and LEASEHOLD_PASSWORD or --password-file",
    ),
    (
        "LockClientBuilder::credentials",
        "--user and LEASEHOLD_PASSWORD or --password-file",
    ),
    ("LockClientBuilder::ca_certificates", "--cacert"),
    ("the client by client_certificate", "the client by --cert"),
    ("command_timeout", "--timeout"),
    ("give_up_after", "10 x --timeout"),
];

/// A text of the library, with the advice for users of the command.
pub(super) fn advised(text: impl fmt::Display) -> String {
    let replaced = |text: String, (library, command): &(&str, &str)| text.replace(library, command);
    ADVICE.iter().fold(text.to_string(), replaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{refusal, refusing};
    use leasehold::{Cause, Hint, LockClient, Permission, TimeLimit, admin};

    const HINTS: [Hint; 16] = [
        Hint::UseCluster,
        Hint::UseSentinel,
        Hint::UnknownCommand,
        Hint::AllowUndeclaredKeys,
        Hint::NotACluster,
        Hint::NotASentinel,
        Hint::LogIn,
        Hint::LogInToSentinel,
        Hint::LogInToMaster,
        Hint::NoPassword,
        Hint::Grant(Permission::Key),
        Hint::Grant(Permission::Command(None)),
        Hint::CheckCertificates,
        Hint::UseCertifiedHost,
        Hint::RaiseMaxClients,
        Hint::FewerNames,
    ];

    #[test]
    fn the_library_writes_each_phrase_that_is_replaced() {
        let hints = HINTS.iter().map(ToString::to_string);
        let limits = [TimeLimit::Command, TimeLimit::GiveUp].map(|limit| limit.to_string());
        let texts: Vec<_> = hints.chain(limits).collect();
        for (phrase, _) in ADVICE {
            assert!(texts.iter().any(|text| text.contains(phrase)), "{phrase}");
        }
    }

    /// Advice of the command names no library function, and advice of the library names no option.
    #[test]
    fn advice_names_options_or_library_functions_but_not_both() {
        for hint in HINTS {
            let (command, library) = (advised(&hint), hint.to_string());
            for word in ["LockClient", "builder", "client_certificate"] {
                assert!(!command.contains(word), "{command}");
            }
            for word in ["--", "LEASEHOLD", "leasehold doctor"] {
                assert!(!library.contains(word), "{library}");
            }
        }
    }

    /// The error of a look-up in a cluster of these servers.
    fn look_up(urls: &[&str]) -> RouteError {
        let client = LockClient::builder_cluster(urls.iter().copied()).build();
        admin::servers(&client.unwrap()).unwrap_err()
    }

    #[test]
    fn every_error_with_a_hint_has_the_advice_of_the_command() {
        let refusing = refusing("NOAUTH Authentication required.");
        let absent = "redis://127.0.0.1:1";
        let (lock, node) = (|| "k".to_owned(), || "h:1".to_owned());
        let RouteError::Unavailable(failed) = look_up(&[&refusing, absent]) else {
            panic!("one server did not refuse");
        };
        let told = [
            Failure::from(Error::Redis {
                lock: lock(),
                node: node(),
                cause: Cause::from("NOAUTH").into(),
                hint: Some(Hint::LogIn.into()),
            })
            .to_string(),
            Failure::from(Error::Unavailable {
                lock: lock(),
                node: node(),
                waited: std::time::Duration::ZERO,
                limit: Some(TimeLimit::Command),
                cause: std::sync::Arc::new(failed.clone()),
            })
            .to_string(),
            Failure::from(RouteError::Unavailable(failed)).to_string(),
            Failure::from(look_up(&[&refusing])).to_string(),
            Failure::from(refusal("NOAUTH Authentication required.")).to_string(),
        ];
        assert!(told[1].contains("limited by --timeout ("), "{}", told[1]);
        for text in told {
            assert_eq!(text.matches("LEASEHOLD_PASSWORD").count(), 1, "{text}");
            assert!(!text.contains("LockClient"), "{text}");
        }
    }
}
