//! What to change after an error reply: the builder, the port, the password or a permission.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::permission::missing_permission;
use super::retry_action::RetryAction;
use super::tls::{CertificateRefused, is_caused_by};
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
        let unknown = text.contains("unknown command");
        let log_in = RetryAction::refuses_log_in(error);
        let hint = match self {
            _ if RetryAction::on(error) == RetryAction::TooManyClients => Hint::RaiseMaxClients,
            _ if is_caused_by::<CertificateRefused>(error) => Hint::CheckCertificates,
            // The URLs of sentinels often have the password of the master.
            Self::Sentinel if has_no_password(error) => Hint::LogInToSentinel,
            _ if has_no_password(error) => Hint::NoPassword,
            Self::Alone | Self::Master if moved => Hint::UseCluster,
            Self::Alone if unknown => Hint::UseSentinel,
            Self::Alone | Self::OfCluster if log_in => Hint::LogIn,
            Self::Sentinel if unknown => Hint::NotASentinel,
            Self::Sentinel if log_in => Hint::LogInToSentinel,
            Self::Master if log_in => Hint::LogInToMaster,
            Self::OfCluster if unknown || text.contains("cluster support disabled") => {
                Hint::NotACluster
            }
            _ => return None,
        };
        Some(Box::new(hint))
    }
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
            (&[Sentinel], unknown, Some(Hint::NotASentinel)),
            (&[OfCluster], unknown, Some(Hint::NotACluster)),
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
