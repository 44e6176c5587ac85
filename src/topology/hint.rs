//! What to change after an error reply: the builder, the port, the password or a permission.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::deployment::Deployment;
use crate::error::Hint;
use crate::transport::permission::missing_permission;
use crate::transport::retry_action::RetryAction;
use crate::transport::tls::{CertificateRefused, io_cause};

/// What to change after this error reply, if the reply says so. `is_sentinel`: it is that of a
/// sentinel, and not that of a server which has locks.
pub(super) fn hint(
    deployment: &Deployment,
    is_sentinel: bool,
    error: &RedisError,
) -> Option<Box<Hint>> {
    use Deployment::{Cluster, Sentinel, Single};
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
    let hint = match deployment {
        _ if RetryAction::on(error) == RetryAction::TooManyClients => Hint::RaiseMaxClients,
        _ if refused.is_some_and(|refused| refused.is_of_another_host) => Hint::UseCertifiedHost,
        _ if refused.is_some() => Hint::CheckCertificates,
        _ if UNDECLARED.iter().any(|words| text.contains(words)) => Hint::AllowUndeclaredKeys,
        // The URLs of sentinels often have the password of the master.
        _ if is_sentinel && (log_in || has_no_password(error)) => Hint::LogInToSentinel,
        _ if has_no_password(error) => Hint::NoPassword,
        Single | Sentinel { .. } if moved => Hint::UseCluster,
        Sentinel { .. } if log_in => Hint::LogInToMaster,
        _ if log_in => Hint::LogIn,
        Cluster if text.contains("cluster support disabled") => Hint::NotACluster,
        _ => match (deployment, unknown?) {
            (Single, "eval" | "evalsha" | "scan") => Hint::UseSentinel,
            (Sentinel { .. }, "sentinel") => Hint::NotASentinel,
            (Cluster, "cluster") => Hint::NotACluster,
            _ => Hint::UnknownCommand,
        },
    };
    Some(Box::new(hint))
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
        let name = || Deployment::Sentinel { master: "m".into() };
        let [alone, sentinel, master, of_cluster] = &[
            (Deployment::Single, false),
            (name(), true),
            (name(), false),
            (Deployment::Cluster, false),
        ];
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
        for (roles, line, expected) in [
            (&[alone, master][..], moved, Some(Hint::UseCluster)),
            (&[alone], unknown, Some(Hint::UseSentinel)),
            (&[sentinel], no_sentinel, Some(Hint::NotASentinel)),
            (&[of_cluster], no_slots, Some(Hint::NotACluster)),
            (&[master, of_cluster], unknown, Some(Hint::UnknownCommand)),
            (&[alone, master], renamed, Some(Hint::UnknownCommand)),
            (&[alone], in_script, Some(Hint::UnknownCommand)),
            (
                &[alone, of_cluster],
                undeclared,
                Some(Hint::AllowUndeclaredKeys),
            ),
            (&[master], no_array, Some(Hint::AllowUndeclaredKeys)),
            (&[of_cluster], no_cluster, Some(Hint::NotACluster)),
            (&[alone, of_cluster], no_auth, Some(Hint::LogIn)),
            (&[alone], wrong_pass, Some(Hint::LogIn)),
            (&[alone], "ERR invalid password", Some(Hint::LogIn)),
            (&[alone], no_password, Some(Hint::NoPassword)),
            (&[alone], no_password_5, Some(Hint::NoPassword)),
            (&[sentinel], no_auth, Some(Hint::LogInToSentinel)),
            (&[master], no_auth, Some(Hint::LogInToMaster)),
            (
                &[alone, sentinel, master, of_cluster],
                no_perm,
                Some(evalsha),
            ),
            (
                &[alone, sentinel, master, of_cluster],
                "ERR max number of clients reached",
                Some(Hint::RaiseMaxClients),
            ),
            (
                &[alone, sentinel, master, of_cluster],
                "OOM no memory",
                None,
            ),
        ] {
            for (deployment, is_sentinel) in roles {
                let found = hint(deployment, *is_sentinel, &refusal(line));
                assert_eq!(
                    found.as_deref(),
                    expected.as_ref(),
                    "{deployment:?}: {line}"
                );
            }
        }
    }
}
