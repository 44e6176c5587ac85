//! The settings that a builder has checked.

use std::ops::Deref;
use std::time::Duration;

use redis::ConnectionAddr;

use super::{LockClientBuilder, Options};
use crate::base::ClientClock;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::transport::credentials::{Credentials, Provide};
use crate::transport::tls::Tls;

/// Settings that [`LockClientBuilder::validate`] has checked.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) deployment: Deployment,
    /// The addresses of the servers that the program named.
    pub(crate) seeds: Vec<ConnectionAddr>,
    /// For the sentinels, if there are any.
    pub(crate) sentinel_credentials: Option<Credentials>,
    /// For the servers that have the locks.
    pub(crate) credentials: Option<Credentials>,
    /// Returns those for the servers that have the locks.
    pub(crate) provider: Option<Provide>,
    /// On the servers that have the locks.
    pub(crate) database: i64,
    /// `None` for connections without TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) clock: ClientClock,
    options: Options,
}

impl Deref for Config {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.options
    }
}

impl LockClientBuilder {
    /// Checks all settings.
    pub(crate) fn validate(mut self) -> Result<Config> {
        self.options.check()?;
        if self.options.confirm_every.is_zero() {
            self.options.confirm_every = Duration::MAX;
        }
        let servers = self.deployment.check(self.servers)?;
        let first = servers[0].clone();
        let seeds: Vec<_> = servers.into_iter().map(|server| server.address).collect();
        let field = self.deployment.field();
        let tls = self.tls.check(first.with_tls, field, &seeds)?;
        // Sentinels have no other database. The one in their URLs is the master's.
        let (credentials, sentinel_credentials) = match self.deployment {
            Deployment::Sentinel { .. } => (self.credentials, first.credentials),
            _ => (self.credentials.or(first.credentials), None),
        };
        if self.provider.is_some() && credentials.is_some() {
            let rule = "a password in the URL or by `credentials` excludes it; remove one of them";
            return Err(Error::config("credentials_provider", "not alone", rule));
        }
        Ok(Config {
            deployment: self.deployment,
            seeds,
            sentinel_credentials,
            credentials,
            database: first.database,
            provider: self.provider,
            tls,
            clock: self.clock,
            options: self.options,
        })
    }
}
