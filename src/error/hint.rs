//! What to change after a refusal, as a type, so that each program can say it in its own words.

use std::fmt;

/// What to change after an [`Error::Redis`](super::Error::Redis). Its text is the advice for users
/// of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// The server belongs to a cluster:
    /// [`LockClient::builder_cluster`](crate::LockClient::builder_cluster).
    UseCluster,
    /// The server may be a sentinel:
    /// [`LockClient::builder_sentinel`](crate::LockClient::builder_sentinel).
    UseSentinel,
    /// The server does not belong to a cluster.
    NotACluster,
    /// The server is not a sentinel.
    NotASentinel,
    /// User or password is missing or wrong.
    LogIn,
    /// User or password is missing or wrong at a sentinel. Sentinels have their own.
    LogInToSentinel,
    /// User or password is missing or wrong at the master that the sentinels named.
    LogInToMaster,
    /// The user lacks a permission.
    Grant(Permission),
}

/// What an ACL of Redis does not allow a user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permission {
    /// A command, such as `evalsha` or `cluster|slots`. `None`: the server does not name it. Redis
    /// 7.0 and older do not name a command that a script called.
    Command(Option<String>),
    /// A key: that of the lock, or that of its fencing tokens.
    Key,
    /// A channel of publish and subscribe.
    Channel,
    /// The database of the URL (Valkey 9.1 and later).
    Database,
    /// The server says it in words that this version of the crate does not know.
    Unknown,
}

impl Permission {
    /// The rule of `ACL SETUSER` that grants it, if that is known.
    pub(crate) fn rule(&self) -> Option<String> {
        match self {
            Self::Command(command) => command.as_ref().map(|command| format!("+{command}")),
            Self::Key => Some("~<key>".into()),
            Self::Channel => Some("&redisson_lock__channel:*".into()),
            Self::Database => Some("db=<database>".into()),
            Self::Unknown => None,
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::UseCluster => "it is a server of a cluster, use LockClient::builder_cluster",
            Self::UseSentinel => "it may be a sentinel, then use LockClient::builder_sentinel",
            Self::NotACluster => {
                "it is no server of a cluster, use LockClient::builder or builder_sentinel"
            }
            Self::NotASentinel => {
                "it is no sentinel, name the ports of the sentinels (26379 by default)"
            }
            Self::LogIn => "set user and password in the URL, or by LockClientBuilder::credentials",
            Self::LogInToSentinel => {
                "user and password in these URLs are for the sentinels, those of the master are set by LockClientBuilder::credentials"
            }
            Self::LogInToMaster => {
                "behind sentinels user and password are set by LockClientBuilder::credentials"
            }
            Self::Grant(permission) => {
                if let Some(rule) = permission.rule() {
                    write!(f, "grant it by ACL SETUSER <user> {rule}; ")?;
                }
                "the README of leasehold lists all permissions that locks need"
            }
        };
        f.write_str(text)
    }
}
