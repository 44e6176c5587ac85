//! What to change after a refusal. A type, so that a program can word the advice itself.

use std::fmt;

/// What to change after an [`Error::Redis`](super::Error::Redis). `Display` writes the advice for
/// users of this library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// The server belongs to a cluster. Use
    /// [`LockClient::builder_cluster`](crate::LockClient::builder_cluster).
    UseCluster,
    /// The server does not have a command that sentinels do not have, such as `EVAL`. If it is a
    /// sentinel, use [`LockClient::builder_sentinel`](crate::LockClient::builder_sentinel).
    /// Otherwise the command was renamed, or this is no server of Redis.
    UseSentinel,
    /// The server does not have a command, or an administrator renamed it (`rename-command`).
    UnknownCommand,
    /// The server refuses scripts that use a key which is not among their declared keys, as
    /// read-write locks and the lines of waiting clients do.
    AllowUndeclaredKeys,
    /// The server does not belong to a cluster. Use
    /// [`LockClient::builder`](crate::LockClient::builder) or
    /// [`builder_sentinel`](crate::LockClient::builder_sentinel).
    NotACluster,
    /// The server is not a sentinel. Use the addresses of the sentinels.
    NotASentinel,
    /// The user or the password is missing or wrong.
    LogIn,
    /// The user or the password for a sentinel is missing or wrong. Sentinels have their own.
    LogInToSentinel,
    /// The user or the password for the master behind the sentinels is missing or wrong.
    LogInToMaster,
    /// The server has no password, but got one. Leave out the user and the password.
    NoPassword,
    /// The user lacks a permission.
    Grant(Permission),
    /// One side did not accept the other's certificate. Check
    /// [`ca_certificates`](crate::LockClientBuilder::ca_certificates) and
    /// [`client_certificate`](crate::LockClientBuilder::client_certificate).
    CheckCertificates,
    /// The server's certificate is for another host than the one to which the client connected:
    /// that of the URL, or that which sentinels or a cluster announce.
    UseCertifiedHost,
    /// The server has as many clients as its `maxclients` allows.
    RaiseMaxClients,
    /// The request has more than 3,999 arguments, which some servers refuse. Acquire fewer names
    /// together, at most 3,980, or send a query with fewer commands.
    FewerNames,
}

/// The permission that a user lacks in the access control list (ACL) of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permission {
    /// To call a command, such as `evalsha` or `cluster|slots`. `None` if the server does not name
    /// it: Redis 7.0 and older do not name a command that a script called.
    Command(Option<String>),
    /// To use a key: that of the lock, or that of its fencing tokens.
    Key,
    /// To use a publish/subscribe channel.
    Channel,
    /// To use the database of the URL (Valkey 9.1 and later).
    Database,
    /// Unknown: this version of the crate does not recognize the server's text.
    Unknown,
}

impl Permission {
    /// The rule of `ACL SETUSER` that grants this permission, if it is known.
    ///
    /// ```
    /// use leasehold::Permission;
    ///
    /// let permission = Permission::Command(Some("evalsha".into()));
    /// assert_eq!(permission.rule().as_deref(), Some("+evalsha"));
    /// assert_eq!(Permission::Unknown.rule(), None);
    /// ```
    #[must_use]
    pub fn rule(&self) -> Option<String> {
        match self {
            Self::Command(command) => command.as_ref().map(|command| format!("+{command}")),
            Self::Key => Some("~<key>".into()),
            Self::Channel => Some("&redisson_*".into()),
            Self::Database => Some("db=<database>".into()),
            Self::Unknown => None,
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::UseCluster => "the server belongs to a cluster; use LockClient::builder_cluster",
            Self::UseSentinel => {
                "if the server is a sentinel, use LockClient::builder_sentinel; otherwise the \
                 command was renamed, or the server is not Redis"
            }
            Self::UnknownCommand => {
                "the server does not have this command, or it was renamed (rename-command)"
            }
            Self::AllowUndeclaredKeys => {
                "let the server accept scripts that use undeclared keys (in Dragonfly, set \
                 default_lua_flags to allow-undeclared-keys)"
            }
            Self::NotACluster => {
                "the server does not belong to a cluster; use LockClient::builder or \
                 builder_sentinel"
            }
            Self::NotASentinel => {
                "the server is not a sentinel; use the addresses of the sentinels (port 26379 by \
                 default)"
            }
            Self::LogIn => {
                "set the user and the password in the URL, or by LockClientBuilder::credentials \
                 or credentials_provider"
            }
            Self::LogInToSentinel => {
                "set the user and the password of the sentinels in their URLs; those of the master \
                 belong in LockClientBuilder::credentials"
            }
            Self::LogInToMaster => {
                "set the user and the password of the master behind the sentinels by \
                 LockClientBuilder::credentials or credentials_provider"
            }
            Self::NoPassword => {
                "the server has no password; leave the user and the password out of the URL and of \
                 LockClientBuilder::credentials"
            }
            Self::Grant(permission) => {
                if let Some(rule) = permission.rule() {
                    write!(f, "grant it with ACL SETUSER <user> {rule}; ")?;
                }
                "docs/permissions.md of leasehold lists all permissions"
            }
            Self::CheckCertificates => {
                "set the authority to trust by LockClientBuilder::ca_certificates, or the \
                 certificate of the client by client_certificate"
            }
            Self::UseCertifiedHost => {
                "use a host of the certificate in the URL, and let sentinels (announce-hostnames) \
                 or the cluster (cluster-preferred-endpoint-type hostname) announce it; or add \
                 this host to the certificate"
            }
            Self::RaiseMaxClients => {
                "raise maxclients of the server, or find the clients with too many connections"
            }
            Self::FewerNames => {
                "some servers refuse a request with more than 3,999 arguments; acquire at most \
                 3,980 names together, or send a query with fewer commands"
            }
        };
        f.write_str(text)
    }
}
