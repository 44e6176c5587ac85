//! What a refusal means to one who took the wrong builder, port or password.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::error::Cause;

/// What a server was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that has all locks.
    Alone,
    Sentinel,
    /// The master that sentinels named.
    Master,
    OfCluster,
}

/// What the server said, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{source}; {hint}")]
struct Hinted {
    source: RedisError,
    hint: &'static str,
}

impl Role {
    /// The refusal of a server, explained where it tells of a mix-up.
    pub(super) fn explain(self, error: RedisError) -> Cause {
        match self.hint(&error) {
            Some(hint) => Box::new(Hinted {
                source: error,
                hint,
            }),
            None => Box::new(error),
        }
    }

    fn hint(self, error: &RedisError) -> Option<&'static str> {
        let moved = matches!(
            error.kind(),
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask)
        );
        let text = error.to_string().to_lowercase();
        let unknown = text.contains("unknown command");
        // The second is what one without any password says to one who brings one.
        let log_in = matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
            || text.contains("without any password configured")
            || error.kind() == ErrorKind::AuthenticationFailed;
        let hint = match self {
            Self::Alone | Self::Master if moved => {
                "it is a server of a cluster, use LockClient::builder_cluster"
            }
            Self::Alone if unknown => "it may be a sentinel, then use LockClient::builder_sentinel",
            Self::Sentinel if unknown => {
                "it is no sentinel, name the ports of the sentinels (26379, unless they were given others)"
            }
            Self::Sentinel if log_in => {
                "user and password in these URLs are for the sentinels, those of the master are set by LockClientBuilder::credentials"
            }
            Self::Master if log_in => {
                "behind sentinels user and password are set by LockClientBuilder::credentials"
            }
            Self::OfCluster if unknown || text.contains("cluster support disabled") => {
                "it is no server of a cluster, use LockClient::builder or builder_sentinel"
            }
            _ => return None,
        };
        Some(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::tests::refusal;

    #[test]
    fn a_mix_up_is_explained_and_nothing_else() {
        let moved = "MOVED 7 127.0.0.1:7001";
        let unknown = "ERR unknown command 'EVALSHA', with args beginning with: 'x'";
        let no_cluster = "ERR This instance has cluster support disabled";
        for (role, line, hint) in [
            (Role::Alone, moved, "builder_cluster"),
            (Role::Alone, unknown, "builder_sentinel"),
            (Role::Sentinel, unknown, "it is no sentinel"),
            (
                Role::Sentinel,
                "NOAUTH Authentication required.",
                "credentials",
            ),
            (Role::Master, "WRONGPASS invalid", "credentials"),
            (Role::OfCluster, no_cluster, "LockClient::builder"),
        ] {
            let text = role.explain(refusal(line)).to_string();
            assert!(text.contains(hint), "{text}");
        }
        for role in [Role::Alone, Role::Sentinel, Role::Master, Role::OfCluster] {
            let error = refusal("NOPERM this user has no permissions");
            assert_eq!(role.explain(error.clone()).to_string(), error.to_string());
        }
    }
}
