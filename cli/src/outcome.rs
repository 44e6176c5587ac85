//! How the program ends: an exit status for scripts, and one line for people.
//!
//! The manual (`manual.roff`) and docs/command.md have the meaning of each status. All others come from
//! the command of `leasehold run`, or from a signal.

use std::fmt;
use std::process::ExitCode;

use super::reporter::{Reporter, one_line, say};
use leasehold::admin::{LookUpFailed, RouteError, ServerError};
use leasehold::{Cause, Error, Hint};

/// The result of everything that the program does.
pub(super) type Result<T, E = Failure> = std::result::Result<T, E>;

/// No client holds the lock, or the user did not want to free it.
pub(super) const NOT_HELD: u8 = 1;
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
/// The lock was lost, or `--max-hold` was over, before the command ended.
pub(super) const LOST: u8 = 76;
/// The command exists, but it cannot be run. Shells use the same status.
pub(super) const CANNOT_RUN: u8 = 126;
/// The command does not exist. Shells use the same status.
pub(super) const NOT_FOUND: u8 = 127;

/// Why the program failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: u8,
    /// The status reports it, so `--quiet` suppresses the message.
    pub(super) is_expected: bool,
    message: String,
}

impl Failure {
    pub(super) fn new(status: u8, message: impl fmt::Display) -> Self {
        Self {
            status,
            is_expected: false,
            message: message.to_string(),
        }
    }

    /// Another client holds the lock. The status is that of `--conflict-exit-code`.
    pub(super) fn held_by_another(status: u8, error: Error) -> Self {
        Self {
            status,
            is_expected: true,
            ..Self::from(error)
        }
    }

    /// The status says everything.
    #[cfg(unix)]
    pub(super) fn silent(status: u8) -> Self {
        Self::new(status, "")
    }

    #[cfg(unix)]
    pub(super) fn no_thread(error: std::io::Error) -> Self {
        Self::new(UNAVAILABLE, format!("no thread can be started: {error}"))
    }

    pub(super) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    /// Writes the message and returns the status.
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
pub(super) fn settle(
    failures: Vec<Failure>,
    asked: usize,
    redlock: bool,
    reporter: Reporter,
) -> Result<()> {
    if redlock && failures.len() * 2 < asked {
        for failure in &failures {
            reporter.warning(failure);
        }
        return Ok(());
    }
    failures.into_iter().next().map_or(Ok(()), Err)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Config { .. } | Error::WrongType { .. } => USAGE,
            Error::HeldByAnother { .. } => HELD,
            Error::Lost { .. } | Error::NotHeld { .. } => LOST,
            _ => UNAVAILABLE,
        };
        Self::new(status, in_options(error))
    }
}

/// The option of the command for each setting of the library.
const OPTIONS: [(&str, &str); 8] = [
    ("ca_certificates", "--cacert"),
    ("client_certificate", "--cert"),
    ("min_replicas", "--min-replicas"),
    ("watchdog_lease", "--lease"),
    ("connect_timeout", "--timeout"),
    ("command_timeout", "--timeout"),
    ("master", "--sentinel"),
    ("nodes", "url"),
];

/// The advice of a hint, for users of the command.
pub(super) fn advice(hint: &Hint) -> String {
    let advice = match hint {
        Hint::UseCluster => "it is a server of a cluster; use --cluster",
        Hint::UseSentinel => "it may be a sentinel; if so, use --sentinel MASTER",
        Hint::NotACluster => "it is not a server of a cluster; leave out --cluster",
        Hint::LogIn => "set user and password in the URL, or by --user and LEASEHOLD_PASSWORD",
        Hint::LogInToSentinel => {
            "set user and password of the sentinels in their URLs; those of the master belong in \
             --user and LEASEHOLD_PASSWORD"
        }
        Hint::LogInToMaster => {
            "set user and password of the master behind the sentinels by --user and \
             LEASEHOLD_PASSWORD"
        }
        Hint::NoPassword => {
            "the server has no password; leave it out of the URL, and unset LEASEHOLD_PASSWORD"
        }
        Hint::Grant(permission) => {
            let all = "leasehold doctor lists all missing permissions";
            return match permission.rule() {
                Some(rule) => format!("grant it with ACL SETUSER <user> {rule}; {all}"),
                None => all.into(),
            };
        }
        Hint::NotASentinel => "give the URLs of the sentinels, or leave out --sentinel",
        Hint::CheckCertificates => {
            "set the authority to trust by --cacert, or the certificate of the client by --cert"
        }
        other => return other.to_string(),
    };
    advice.into()
}

/// A message of the library, with the advice for users of the command.
pub(super) fn advised(message: impl fmt::Display, hint: Option<&Hint>) -> String {
    match hint {
        Some(hint) => format!("{message}; {}", advice(hint)),
        None => message.to_string(),
    }
}

/// The message of an error of the library, with the options and the advice of the command.
pub(super) fn in_options(mut error: Error) -> String {
    match &mut error {
        Error::Config { field, value, rule } => {
            let option = OPTIONS.iter().find(|(setting, _)| setting == field);
            let field = option.map_or(*field, |(_, option)| option);
            format!("{field} is {value}: {rule}")
        }
        Error::Redis { hint, .. } => {
            let hint = hint.take();
            advised(error, hint.as_deref())
        }
        Error::Unavailable { cause, .. } => {
            *cause = cause_text(cause).into();
            error.to_string()
        }
        // The watchdog of the command ends with it.
        Error::NotReleased {
            lock, node, cause, ..
        } => format!(
            "{lock:?}: no clear reply from Redis at {node} to its release in time ({}); it ends by \
             itself within its lease",
            cause_text(cause)
        ),
        // The advice of the library is for a thread.
        Error::Lost { lock, reason } => format!("{lock:?} was lost ({reason})"),
        _ => error.to_string(),
    }
}

fn cause_text(cause: &Cause) -> String {
    match cause.downcast_ref() {
        Some(failed) => look_up_failed(failed),
        None => cause.to_string(),
    }
}

fn look_up_failed(failed: &LookUpFailed) -> String {
    let text = |error: &ServerError| {
        let message = format!("; {}: {}", error.node, error.cause);
        advised(message, error.hint.as_deref())
    };
    let errors: String = failed.errors.iter().map(text).collect();
    format!("{}{errors}", failed.reason)
}

impl From<ServerError> for Failure {
    fn from(mut error: ServerError) -> Self {
        let hint = error.hint.take();
        let is_absent = !error.is_reply() && !error.cause.is_timeout();
        let message = advised(error, hint.as_deref());
        let advice = if is_absent && hint.is_none() {
            "; check that Redis runs there, or name another server by --url or LEASEHOLD_URL"
        } else {
            ""
        };
        Self::new(UNAVAILABLE, message + advice)
    }
}

impl From<RouteError> for Failure {
    fn from(error: RouteError) -> Self {
        match error {
            RouteError::Invalid(error) => error.into(),
            RouteError::Refused(error) => error.into(),
            RouteError::Unavailable(failed) => Self::new(UNAVAILABLE, look_up_failed(&failed)),
            other => Self::new(UNAVAILABLE, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{refusal, refusing};
    use leasehold::LockClient;
    use leasehold::Permission;
    use leasehold::admin;

    /// Advice of the command names no library function, and advice of the library names no option.
    #[test]
    fn advice_names_options_or_library_functions_but_not_both() {
        for hint in [
            Hint::UseCluster,
            Hint::UseSentinel,
            Hint::NotACluster,
            Hint::NotASentinel,
            Hint::LogIn,
            Hint::LogInToSentinel,
            Hint::LogInToMaster,
            Hint::NoPassword,
            Hint::Grant(Permission::Key),
            Hint::Grant(Permission::Command(None)),
            Hint::CheckCertificates,
            Hint::RaiseMaxClients,
        ] {
            let (command, library) = (advice(&hint), hint.to_string());
            assert!(!command.contains("LockClient"), "{command}");
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
            in_options(Error::Redis {
                lock: lock(),
                node: node(),
                cause: "NOAUTH".into(),
                hint: Some(Hint::LogIn.into()),
            }),
            in_options(Error::Unavailable {
                lock: lock(),
                node: node(),
                waited: std::time::Duration::ZERO,
                cause: failed.clone().into(),
            }),
            Failure::from(RouteError::Unavailable(failed)).to_string(),
            Failure::from(look_up(&[&refusing])).to_string(),
            Failure::from(refusal("NOAUTH Authentication required.")).to_string(),
        ];
        for text in told {
            assert_eq!(text.matches("LEASEHOLD_PASSWORD").count(), 1, "{text}");
            assert!(!text.contains("LockClient"), "{text}");
        }
    }

    #[test]
    fn settings_are_named_by_their_options() {
        let config = |field, rule: &str| {
            let (value, rule) = ("0".into(), rule.into());
            in_options(Error::Config { field, value, rule })
        };
        for (told, expected) in [
            (
                config("min_replicas", "it is 1"),
                "--min-replicas is 0: it is 1",
            ),
            (config("nodes", "no"), "url is 0: no"),
        ] {
            assert_eq!(told, expected);
        }
    }
}
