//! What the program ends with: a status that scripts can tell apart, and one line that people can read.

use std::fmt;
use std::process::ExitCode;

use super::reporter::{one_line, say};
use leasehold::admin::{LookUpFailed, RouteError, ServerError};
use leasehold::{Cause, Error, Hint};

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
            message: message.to_string(),
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
        Self::new(status, in_options(error))
    }
}

/// The options for settings of the library, and for the arguments of its builders.
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

/// What users of the command change after a refusal.
fn advice(hint: &Hint) -> String {
    let advice = match hint {
        Hint::UseCluster => "it is a server of a cluster, say --cluster",
        Hint::UseSentinel => "it may be a sentinel, then say --sentinel MASTER",
        Hint::NotACluster => "it is no server of a cluster, leave out --cluster",
        Hint::LogIn => "give user and password in the URL, or by --user and LEASEHOLD_PASSWORD",
        Hint::LogInToSentinel => {
            "user and password in these URLs are for the sentinels, those of the master are given by --user and LEASEHOLD_PASSWORD"
        }
        Hint::LogInToMaster => {
            "behind sentinels user and password are given by --user and LEASEHOLD_PASSWORD"
        }
        Hint::Grant(permission) => {
            let all = "leasehold doctor names all permissions that are missing";
            return match permission.rule() {
                Some(rule) => format!("grant it by ACL SETUSER <user> {rule}; {all}"),
                None => all.into(),
            };
        }
        Hint::CheckCertificates => {
            "name the authority to trust (--cacert), or show the certificate that is asked for (--cert)"
        }
        other => return other.to_string(),
    };
    advice.into()
}

/// A message of the library, and what users of the command change.
pub(super) fn advised(message: impl fmt::Display, hint: Option<&Hint>) -> String {
    match hint {
        Some(hint) => format!("{message}; {}", advice(hint)),
        None => message.to_string(),
    }
}

/// The message of an error of the library, in the words of the command.
pub(super) fn in_options(error: Error) -> String {
    match error {
        Error::Config { field, value, rule } => {
            let option = OPTIONS.iter().find(|(setting, _)| *setting == field);
            let field = option.map_or(field, |(_, option)| option);
            format!("{field} is {value}: {rule}")
        }
        Error::Redis {
            lock,
            node,
            cause,
            hint,
        } => {
            let refusal = Error::Redis {
                lock,
                node,
                cause,
                hint: None,
            };
            advised(refusal, hint.as_deref())
        }
        Error::Unavailable {
            lock,
            node,
            waited,
            cause,
        } => {
            let cause = told(cause).into();
            let unavailable = Error::Unavailable {
                lock,
                node,
                waited,
                cause,
            };
            unavailable.to_string()
        }
        other => other.to_string(),
    }
}

fn told(cause: Cause) -> String {
    match cause.downcast_ref() {
        Some(failed) => look_up_failed(failed),
        None => cause.to_string(),
    }
}

fn look_up_failed(failed: &LookUpFailed) -> String {
    let told = |error: &ServerError| {
        let said = format!("; {}: {}", error.node, error.cause);
        advised(said, error.hint.as_deref())
    };
    let errors: String = failed.errors.iter().map(told).collect();
    format!("{}{errors}", failed.reason)
}

impl From<ServerError> for Failure {
    fn from(mut error: ServerError) -> Self {
        let hint = error.hint.take();
        Self::new(UNAVAILABLE, advised(error, hint.as_deref()))
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
    use crate::replies::{refusal, refusing};
    use leasehold::LockClient;
    use leasehold::Permission;
    use leasehold::admin;

    /// Advice of the command names no library function, and advice of the library names no option.
    #[test]
    fn each_speaks_to_its_own_users() {
        for hint in [
            Hint::UseCluster,
            Hint::UseSentinel,
            Hint::NotACluster,
            Hint::NotASentinel,
            Hint::LogIn,
            Hint::LogInToSentinel,
            Hint::LogInToMaster,
            Hint::Grant(Permission::Key),
            Hint::Grant(Permission::Command(None)),
            Hint::CheckCertificates,
            Hint::RaiseMaxClients,
        ] {
            let (ours, theirs) = (advice(&hint), hint.to_string());
            assert!(!ours.contains("LockClient"), "{ours}");
            for word in ["--", "LEASEHOLD", "leasehold doctor"] {
                assert!(!theirs.contains(word), "{theirs}");
            }
        }
    }

    /// What a look-up in a cluster of these servers says.
    fn look_up(urls: &[&str]) -> RouteError {
        let client = LockClient::builder_cluster(urls.iter().copied()).build();
        admin::servers(&client.unwrap()).unwrap_err()
    }

    #[test]
    fn advice_is_given_in_options_wherever_an_error_has_it() {
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
    fn settings_are_told_by_their_options() {
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
