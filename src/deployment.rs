//! How Redis is deployed, and what the program says about its servers.

mod info;
mod url;

use redis::ConnectionAddr;

use crate::error::{Error, Result};
use crate::transport::credentials::Credentials;

/// How Redis is deployed.
#[derive(Clone, Debug)]
pub(crate) enum Deployment {
    /// One server, which has all locks.
    Single,
    /// The master that the sentinels monitor under this name has the locks.
    Sentinel {
        master: String,
    },
    Cluster,
}

/// A server as its URL, or settings of the `redis` crate, describe it.
#[derive(Clone)]
pub(crate) struct NamedServer {
    /// Without TLS.
    pub(crate) address: ConnectionAddr,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: i64,
    pub(crate) with_tls: bool,
}

/// Why a URL, or settings of the `redis` crate, are invalid. No text contains a part of a URL,
/// because any part may be a misplaced password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    part: &'static str,
    rule: &'static str,
}

fn fault<T>(part: &'static str, rule: &'static str) -> Result<T, Fault> {
    Err(Fault { part, rule })
}

impl NamedServer {
    /// Fails if no server can have this address or database.
    fn checked(self) -> Result<Self, Fault> {
        let is_of_host = |c: char| c.is_alphanumeric() || "-._".contains(c);
        match &self.address {
            // An IPv6 address has colons, and maybe the name of a network interface.
            ConnectionAddr::Tcp(host, _)
                if !host.contains(':') && !host.chars().all(is_of_host) =>
            {
                fault(
                    "a host that is not shown, because it may contain a password",
                    "a host has letters, digits, dots, hyphens and underscores only; a user and a \
                     password stand before the host, as in redis://user:password@host, or after \
                     a ?, as in redis://host?user=..&pass=..",
                )
            }
            _ if self.database < 0 => {
                fault("a negative database", "a database must be a whole number")
            }
            _ => Ok(self),
        }
    }

    /// True unless both are the same in all but the address.
    fn differs(&self, other: &Self) -> bool {
        let has_other_log_in = match (&self.credentials, &other.credentials) {
            (Some(own), Some(other)) => !own.is(other),
            (own, other) => own.is_some() || other.is_some(),
        };
        has_other_log_in || (self.database, self.with_tls) != (other.database, other.with_tls)
    }
}

impl Deployment {
    /// The setting that names the servers.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Single => "url",
            Self::Sentinel { .. } => "sentinels",
            Self::Cluster => "nodes",
        }
    }

    /// Returns the servers that the program named, if there are any and they agree in all but the
    /// address.
    pub(crate) fn check(&self, named: Vec<Result<NamedServer, Fault>>) -> Result<Vec<NamedServer>> {
        let (field, count) = (self.field(), named.len());
        let mut servers: Vec<NamedServer> = Vec::with_capacity(count);
        for (place, server) in named.into_iter().enumerate() {
            let which = match self {
                Self::Single => String::new(),
                _ => format!("number {} of {count}, ", place + 1),
            };
            let server = server.map_err(|Fault { part, rule }| {
                Error::config(field, format_args!("{which}invalid ({part})"), rule)
            })?;
            let is_socket = !matches!(server.address, ConnectionAddr::Tcp(..));
            let rule = if is_socket && !matches!(self, Self::Single) {
                "must have a host and a port"
            } else if servers.iter().any(|it| it.address == server.address) {
                "each server must be listed once"
            } else if servers.first().is_some_and(|first| first.differs(&server)) {
                "all URLs must have the same scheme, user, password and database"
            } else {
                servers.push(server);
                continue;
            };
            let value = format_args!("{which}{}", server.address);
            return Err(Error::config(field, value, rule));
        }
        let Some(first) = servers.first() else {
            return Err(Error::config(field, "empty", "must have at least one URL"));
        };
        match self {
            Self::Sentinel { master } if master.is_empty() => {
                let rule = "must be the name under which the sentinels monitor the master";
                Err(Error::config("master", "\"\"", rule))
            }
            Self::Cluster if first.database != 0 => {
                let found = format_args!("database {}", first.database);
                Err(Error::config(field, found, "a cluster has only database 0"))
            }
            _ => Ok(servers),
        }
    }
}
