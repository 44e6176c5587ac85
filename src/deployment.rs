//! How Redis is deployed: turns the URLs of the builder into addresses and accounts.

mod fault;
mod info;
mod parameters;
mod url;

use fault::Fault;
use redis::{ConnectionAddr, ConnectionInfo};

use crate::error::{Error, Result};
use crate::transport::credentials::Account;
use crate::transport::tls::{self, Tls};

/// The deployment as given to the builder.
#[derive(Clone)]
pub(crate) enum Urls {
    One(String),
    /// Settings of the `redis` crate for one server.
    Info(Box<ConnectionInfo>),
    Sentinel {
        sentinels: Vec<String>,
        /// The name under which the sentinels monitor the master.
        service: String,
    },
    Cluster(Vec<String>),
}

/// The addresses of the deployment.
#[derive(Clone, Debug)]
pub(crate) enum Deployment {
    One(ConnectionAddr),
    Sentinel {
        sentinels: Vec<ConnectionAddr>,
        service: String,
        /// For the sentinels.
        account: Account,
    },
    Cluster(Vec<ConnectionAddr>),
}

/// A server as its URL, or settings of the `redis` crate, describe it.
#[derive(Debug)]
struct Server {
    /// Without TLS.
    address: ConnectionAddr,
    account: Account,
    with_tls: bool,
}

impl Urls {
    /// Returns the deployment, and the account for the servers that have the locks: `own`, or
    /// else those of the URLs.
    pub(crate) fn resolve(
        &self,
        own: Option<(Option<String>, String)>,
        settings: &tls::Settings,
    ) -> Result<(Deployment, Account, Option<Tls>)> {
        let (field, servers) = match self {
            Self::One(url) => ("url", vec![parse("url", url, "")?]),
            Self::Info(info) => (info::FIELD, vec![info::reuse(info)?]),
            Self::Sentinel { sentinels, .. } => ("sentinels", parse_all("sentinels", sentinels)?),
            Self::Cluster(nodes) => ("nodes", parse_all("nodes", nodes)?),
        };
        let Some(first) = servers.first() else {
            return Err(Error::config(field, "empty", "must have at least one URL"));
        };
        let tls = tls_for(field, &servers, settings)?;
        let (address, mut account) = (first.address.clone(), first.account.clone());
        let addresses = servers.into_iter().map(|server| server.address).collect();
        let deployment = match self {
            Self::One(_) | Self::Info(_) => Deployment::One(address),
            Self::Sentinel { service, .. } if service.is_empty() => {
                let rule = "must be the name under which the sentinels monitor the master";
                return Err(Error::config("master", "\"\"", rule));
            }
            Self::Sentinel { service, .. } => {
                // Sentinels have no other database. The one in their URLs is the master's.
                let database = std::mem::take(&mut account.database);
                let of_master = Account {
                    database,
                    ..Account::default()
                };
                Deployment::Sentinel {
                    sentinels: addresses,
                    service: service.clone(),
                    account: std::mem::replace(&mut account, of_master),
                }
            }
            Self::Cluster(_) if account.database != 0 => {
                let found = format!("database {}", account.database);
                let rule = "a cluster has only database 0";
                return Err(Error::config("nodes", found, rule));
            }
            Self::Cluster(_) => Deployment::Cluster(addresses),
        };
        if let Some((username, password)) = own {
            account.username = username;
            account.password = Some(password);
        }
        Ok((deployment, account, tls))
    }
}

/// Parses the URLs of several servers, which must agree in all but the address.
fn parse_all(field: &'static str, urls: &[String]) -> Result<Vec<Server>> {
    let mut servers: Vec<Server> = Vec::with_capacity(urls.len());
    for (place, url) in urls.iter().enumerate() {
        let which = format!("number {} of {}, ", place + 1, urls.len());
        let server = parse(field, url, &which)?;
        let common = |server: &Server| (server.account.clone(), server.with_tls);
        let rule = if !matches!(server.address, ConnectionAddr::Tcp(..)) {
            "must have a host and a port"
        } else if servers.iter().any(|it| it.address == server.address) {
            "each server must be listed once"
        } else if servers
            .first()
            .is_some_and(|first| common(first) != common(&server))
        {
            "all URLs must have the same scheme, user, password and database"
        } else {
            servers.push(server);
            continue;
        };
        return Err(Error::config(
            field,
            format!("{which}{}", server.address),
            rule,
        ));
    }
    Ok(servers)
}

/// Parses a URL. `which` says for errors which entry of a list it is, and is empty without one.
fn parse(field: &'static str, url: &str, which: &str) -> Result<Server> {
    let parsed = url::parse(url.trim(), which.is_empty());
    parsed.map_err(|Fault { part, rule }| {
        Error::config(field, format_args!("{which}invalid ({part})"), rule)
    })
}

/// What connections with TLS need, if the URLs ask for it.
fn tls_for(
    field: &'static str,
    servers: &[Server],
    settings: &tls::Settings,
) -> Result<Option<Tls>> {
    if !servers.iter().any(|server| server.with_tls) {
        settings.refuse()?;
        return Ok(None);
    }
    let tls = settings.validate()?;
    for server in servers {
        if let ConnectionAddr::Tcp(host, _) = &server.address {
            tls.check_host(host).map_err(|error| match error {
                Error::Config { value, rule, .. } => Error::config(field, value, rule),
                other => other,
            })?;
        }
    }
    Ok(Some(tls))
}
