//! How Redis is deployed: turns the URLs of the builder into addresses and credentials.

mod fault;
mod info;
mod parameters;
mod url;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::{Error, Result};
use crate::transport::node::Credentials;
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
        credentials: Credentials,
    },
    Cluster(Vec<ConnectionAddr>),
}

impl Urls {
    /// Returns the deployment, and the credentials for the servers that have the locks: `own`, or
    /// else those of the URLs.
    pub(crate) fn resolve(
        &self,
        own: Option<(Option<String>, String)>,
        settings: &tls::Settings,
    ) -> Result<(Deployment, Credentials, Option<Tls>)> {
        let (deployment, mut credentials, tls) = match self {
            Self::One(url) => one("url", parse("url", url, "")?, settings)?,
            Self::Info(info) => one(info::FIELD, info::reuse(info)?, settings)?,
            Self::Sentinel { sentinels, service } => {
                if service.is_empty() {
                    return Err(Error::Config {
                        field: "master",
                        value: "\"\"".into(),
                        rule: "must be the name under which the sentinels monitor the master"
                            .into(),
                    });
                }
                let (addresses, of_sentinels, tls) = parse_all("sentinels", sentinels, settings)?;
                let deployment = Deployment::Sentinel {
                    sentinels: addresses,
                    service: service.clone(),
                    credentials: Credentials {
                        // Sentinels have no other database. The one in their URLs is the master's.
                        database: 0,
                        ..of_sentinels.clone()
                    },
                };
                let credentials = Credentials {
                    database: of_sentinels.database,
                    ..Credentials::default()
                };
                (deployment, credentials, tls)
            }
            Self::Cluster(nodes) => {
                let (addresses, credentials, tls) = parse_all("nodes", nodes, settings)?;
                if credentials.database != 0 {
                    return Err(Error::Config {
                        field: "nodes",
                        value: format!("database {}", credentials.database),
                        rule: "a cluster has only database 0".into(),
                    });
                }
                (Deployment::Cluster(addresses), credentials, tls)
            }
        };
        if let Some((username, password)) = own {
            credentials.username = username;
            credentials.password = Some(password);
        }
        Ok((deployment, credentials, tls))
    }
}

/// The deployment of one server, which has TLS or not.
fn one(
    field: &'static str,
    (server, with_tls): (ConnectionInfo, bool),
    settings: &tls::Settings,
) -> Result<(Deployment, Credentials, Option<Tls>)> {
    let tls = tls_for(field, with_tls, settings, &[server.addr()])?;
    let credentials = Credentials::from(&server);
    Ok((Deployment::One(server.addr().clone()), credentials, tls))
}

/// The addresses of several servers, and the credentials, database and TLS that their URLs share.
fn parse_all(
    field: &'static str,
    urls: &[String],
    settings: &tls::Settings,
) -> Result<(Vec<ConnectionAddr>, Credentials, Option<Tls>)> {
    let mut addresses: Vec<ConnectionAddr> = Vec::with_capacity(urls.len());
    let mut common: Option<(Credentials, bool)> = None;
    for (place, url) in urls.iter().enumerate() {
        let which = format!("number {} of {}, ", place + 1, urls.len());
        let (server, with_tls) = parse(field, url, &which)?;
        let refused = |rule: &str| Error::Config {
            field,
            value: format!("{which}{}", server.addr()),
            rule: rule.into(),
        };
        if !matches!(server.addr(), ConnectionAddr::Tcp(..)) {
            return Err(refused("must have a host and a port"));
        }
        if addresses.contains(server.addr()) {
            return Err(refused("each server must be listed once"));
        }
        let found = (Credentials::from(&server), with_tls);
        if *common.get_or_insert_with(|| found.clone()) != found {
            return Err(refused(
                "all URLs must have the same scheme, user, password and database",
            ));
        }
        addresses.push(server.addr().clone());
    }
    let (credentials, with_tls) = common.ok_or_else(|| Error::Config {
        field,
        value: "empty".into(),
        rule: "must have at least one URL".into(),
    })?;
    let all: Vec<_> = addresses.iter().collect();
    let tls = tls_for(field, with_tls, settings, &all)?;
    Ok((addresses, credentials, tls))
}

/// Parses a URL. Returns true if it asks for TLS. `which` describes its position in a list, and is
/// empty without a list.
fn parse(field: &'static str, url: &str, which: &str) -> Result<(ConnectionInfo, bool)> {
    let refused = |part: &str, rule: String| Error::Config {
        field,
        value: format!("{which}invalid ({part})"),
        rule,
    };
    // A URL that was read from a file often ends with a newline.
    let url = url.trim();
    let parameters =
        url::check(url, which.is_empty()).map_err(|fault| refused(&fault.part, fault.rule))?;
    let stripped = tls::strip(url).map_err(|error| located(error, field, which))?;
    let plain = stripped.as_deref().unwrap_or(url);
    // Other faults are rare, so they get the message of `redis`.
    let server = plain
        .into_connection_info()
        .map_err(|error| refused("not readable", error.to_string()))?;
    let server = parameters.add_to(server);
    match (server.addr(), stripped.is_some()) {
        (ConnectionAddr::Tcp(..), with_tls) => Ok((server, with_tls)),
        (ConnectionAddr::Unix(_), false) => Ok((server, false)),
        _ => Err(refused(
            "not readable",
            "must be a TCP or Unix socket address".into(),
        )),
    }
}

/// Adds the setting, and the position of the URL, to an error about a URL.
fn located(error: Error, field: &'static str, which: &str) -> Error {
    match error {
        Error::Config { value, rule, .. } => Error::Config {
            field,
            value: format!("{which}{value}"),
            rule,
        },
        other => other,
    }
}

/// The TLS settings for these addresses.
fn tls_for(
    field: &'static str,
    with_tls: bool,
    settings: &tls::Settings,
    addresses: &[&ConnectionAddr],
) -> Result<Option<Tls>> {
    if !with_tls {
        settings.refuse()?;
        return Ok(None);
    }
    let tls = settings.validate()?;
    for address in addresses {
        if let ConnectionAddr::Tcp(host, _) = address {
            tls.check_host(host)
                .map_err(|error| located(error, field, ""))?;
        }
    }
    Ok(Some(tls))
}
