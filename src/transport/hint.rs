//! What to change after an error reply: the builder, the port, the password or a permission.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::permission::missing_permission;
use super::retry_action::RetryAction;
use super::tls::{CertificateRefused, io_cause};
use crate::error::Hint;

/// The role in which the client uses a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The only server, which has all locks.
    Alone,
    Sentinel,
    /// The master that sentinels named.
    Master,
    OfCluster,
}

impl Role {
    /// What to change after this error reply, if the reply says so.
    pub(crate) fn hint(self, error: &RedisError) -> Option<Box<Hint>> {
        if let Some(permission) = missing_permission(error) {
            return Some(Box::new(Hint::Grant(permission)));
        }
        let moved = matches!(
            error.kind(),
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask)
        );
        let text = error.detail().unwrap_or_default().to_lowercase();
        let unknown = unknown_command(&text);
        let refused = io_cause::<CertificateRefused>(error);
        let log_in = RetryAction::refuses_log_in(error);
        let hint = match self {
            _ if RetryAction::on(error) == RetryAction::TooManyClients => Hint::RaiseMaxClients,
            _ if refused.is_some_and(|refused| refused.is_of_another_host) => {
                Hint::UseCertifiedHost
            }
            _ if refused.is_some() => Hint::CheckCertificates,
            _ if UNDECLARED.iter().any(|words| text.contains(words)) => Hint::AllowUndeclaredKeys,
            // The URLs of sentinels often have the password of the master.
            Self::Sentinel if has_no_password(error) => Hint::LogInToSentinel,
            _ if has_no_password(error) => Hint::NoPassword,
            Self::Alone | Self::Master if moved => Hint::UseCluster,
            Self::Alone | Self::OfCluster if log_in => Hint::LogIn,
            Self::Sentinel if log_in => Hint::LogInToSentinel,
            Self::Master if log_in => Hint::LogInToMaster,
            Self::OfCluster if text.contains("cluster support disabled") => Hint::NotACluster,
            _ => match (self, unknown?) {
                (Self::Alone, "eval" | "evalsha" | "scan") => Hint::UseSentinel,
                (Self::Sentinel, "sentinel") => Hint::NotASentinel,
                (Self::OfCluster, "cluster") => Hint::NotACluster,
                _ => Hint::UnknownCommand,
            },
        };
        Some(Box::new(hint))
    }
}

/// What servers write, in lower case, that refuse keys which a script does not declare: Dragonfly,
/// and services that route scripts by their keys.
const UNDECLARED: [&str; 2] = ["undeclared key", "keys array"];

/// The command that the server does not know, by its text in lower case. It is empty if the text
/// does not name it.
fn unknown_command(text: &str) -> Option<&str> {
    if text.contains("unknown redis command") {
        return Some("");
    }
    let (_, named) = text.split_once("unknown command")?;
    let named = named.trim_start_matches([' ', '\'', '`', '"']);
    named.split(|c: char| !c.is_ascii_alphanumeric()).next()
}

/// True if a server without a password got one.
fn has_no_password(error: &RedisError) -> bool {
    let text = error.detail().unwrap_or_default();
    // Since Redis 6, and before.
    text.contains("without any password configured") || text.contains("Client sent AUTH")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Permission;
    use crate::transport::tests::refusal;

    #[test]
    fn every_refusal_has_the_hint_for_its_role() {
        use Role::{Alone, Master, OfCluster, Sentinel};
        let moved = "MOVED 7 127.0.0.1:7001";
        let unknown = "ERR unknown command 'EVALSHA', with args beginning with: 'x'";
        let no_sentinel = "ERR unknown command `SENTINEL`, with args beginning with: `x`";
        let no_slots = "ERR Unknown command CLUSTER";
        let renamed = "ERR unknown command 'SUBSCRIBE', with args beginning with: 'x'";
        let in_script =
            "ERR Unknown Redis command called from script script: 1, on @user_script:1.";
        let undeclared = "ERR Error running script (call to 1): @user_script:2: script tried \
                          accessing undeclared key";
        let no_array = "ERR bad lua script for redis cluster, all the keys that the script uses \
                        should be passed using the KEYS array";
        let no_cluster = "ERR This instance has cluster support disabled";
        let no_auth = "NOAUTH Authentication required.";
        let wrong_pass = "WRONGPASS invalid username-password pair or user is disabled.";
        let no_password =
            "ERR AUTH <password> called without any password configured for the default user";
        let no_password_5 = "ERR Client sent AUTH, but no password is set";
        let no_perm = "NOPERM User w has no permissions to run the 'evalsha' command";
        let evalsha = Hint::Grant(Permission::Command(Some("evalsha".into())));
        for (roles, line, hint) in [
            (&[Alone, Master][..], moved, Some(Hint::UseCluster)),
            (&[Alone], unknown, Some(Hint::UseSentinel)),
            (&[Sentinel], no_sentinel, Some(Hint::NotASentinel)),
            (&[OfCluster], no_slots, Some(Hint::NotACluster)),
            (&[Master, OfCluster], unknown, Some(Hint::UnknownCommand)),
            (&[Alone, Master], renamed, Some(Hint::UnknownCommand)),
            (&[Alone], in_script, Some(Hint::UnknownCommand)),
            (
                &[Alone, OfCluster],
                undeclared,
                Some(Hint::AllowUndeclaredKeys),
            ),
            (&[Master], no_array, Some(Hint::AllowUndeclaredKeys)),
            (&[OfCluster], no_cluster, Some(Hint::NotACluster)),
            (&[Alone, OfCluster], no_auth, Some(Hint::LogIn)),
            (&[Alone], wrong_pass, Some(Hint::LogIn)),
            (&[Alone], "ERR invalid password", Some(Hint::LogIn)),
            (&[Alone], no_password, Some(Hint::NoPassword)),
            (&[Alone], no_password_5, Some(Hint::NoPassword)),
            (&[Sentinel], no_auth, Some(Hint::LogInToSentinel)),
            (&[Master], no_auth, Some(Hint::LogInToMaster)),
            (
                &[Alone, Sentinel, Master, OfCluster],
                no_perm,
                Some(evalsha),
            ),
            (
                &[Alone, Sentinel, Master, OfCluster],
                "ERR max number of clients reached",
                Some(Hint::RaiseMaxClients),
            ),
            (&[Alone, Sentinel, Master, OfCluster], "OOM no memory", None),
        ] {
            for role in roles {
                assert_eq!(
                    role.hint(&refusal(line)).as_deref(),
                    hint.as_ref(),
                    "{role:?}: {line}"
                );
            }
        }
    }
}
