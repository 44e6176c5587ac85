//! The settings that a builder has checked.

use std::ops::Deref;
use std::time::Duration;

use redis::ConnectionAddr;

use super::{LockClientBuilder, Options};
use crate::base::test_clock::ClientClock;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::transport::credentials::{Account, Provide};
use crate::transport::tls::Tls;

/// Settings that [`LockClientBuilder::validate`] has checked.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) deployment: Deployment,
    /// The addresses of the servers that the program named.
    pub(crate) seeds: Vec<ConnectionAddr>,
    /// For the sentinels, if there are any.
    pub(crate) sentinel_account: Account,
    /// For the servers that have the locks.
    pub(crate) account: Account,
    /// Returns their user and password.
    pub(crate) provider: Option<Provide>,
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
        let (mut account, with_tls) = (servers[0].account.clone(), servers[0].with_tls);
        let seeds: Vec<_> = servers.into_iter().map(|server| server.address).collect();
        let tls = self.tls.check(with_tls, self.deployment.field(), &seeds)?;
        let mut sentinel_account = Account::default();
        if let Deployment::Sentinel { .. } = self.deployment {
            // Sentinels have no other database. The one in their URLs is the master's.
            std::mem::swap(&mut account, &mut sentinel_account);
            std::mem::swap(&mut account.database, &mut sentinel_account.database);
        }
        if let Some((username, password)) = self.credentials {
            account.username = username;
            account.password = Some(password);
        }
        if self.provider.is_some() && account.password.is_some() {
            let rule = "a password in the URL or by `credentials` excludes it; remove one of them";
            return Err(Error::config("credentials_provider", "not alone", rule));
        }
        Ok(Config {
            deployment: self.deployment,
            seeds,
            sentinel_account,
            account,
            provider: self.provider,
            tls,
            clock: self.clock,
            options: self.options,
        })
    }
}
