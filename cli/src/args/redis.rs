//! The options for Redis, which all commands have.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;

use super::duration;

/// The servers, and how they are deployed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Redis")]
pub(crate) struct RedisArgs {
    /// redis://[user:password@]host[:port][/database], rediss:// for TLS, or redis+unix:///path
    /// (or the same with valkey://, valkeys://, valkey+unix://);
    /// several are separated by commas. Default: REDIS_URL, or else redis://127.0.0.1:6379. Put a
    /// password into the environment, where other users cannot read it
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    #[arg(value_name = "URL[,URL..]")]
    pub(crate) url: Option<String>,

    /// The URLs are sentinels, and they monitor the master under this name
    #[arg(long, env = "LEASEHOLD_SENTINEL", value_name = "MASTER")]
    pub(crate) sentinel: Option<String>,

    /// The URLs are servers of one cluster
    #[arg(long, env = "LEASEHOLD_CLUSTER", value_parser = FalseyValueParser::new())]
    pub(crate) cluster: bool,

    /// The URLs are independent servers, three, five or more; a majority must grant a lock
    #[arg(long, env = "LEASEHOLD_REDLOCK", value_parser = FalseyValueParser::new())]
    pub(crate) redlock: bool,

    /// A lock counts as acquired only if this many replicas confirm it within 100 ms
    #[arg(long, env = "LEASEHOLD_MIN_REPLICAS", value_name = "NUMBER")]
    pub(crate) min_replicas: Option<u32>,

    /// The user at the servers that have the locks; the password is LEASEHOLD_PASSWORD in the
    /// environment. A URL with a password overrides both variables, unless it is a sentinel's
    #[arg(
        long,
        env = "LEASEHOLD_USER",
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub(crate) user: Option<String>,

    /// A file with the password, instead of LEASEHOLD_PASSWORD; a newline at its end does not count.
    /// It is read at the start, and again whenever a server refuses a login. A URL with a password
    /// overrides the variable
    #[arg(
        long,
        env = "LEASEHOLD_PASSWORD_FILE",
        hide_env_values = true,
        value_name = "FILE"
    )]
    pub(crate) password_file: Option<PathBuf>,

    /// True if the command line names the user, and not the environment.
    #[arg(skip)]
    pub(crate) names_user: bool,

    /// True if the command line names the file, and not the environment.
    #[arg(skip)]
    pub(crate) names_password_file: bool,

    /// PEM file with the authorities to trust for rediss://, instead of those of the system
    #[arg(long, env = "LEASEHOLD_CACERT", value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// PEM file with the certificate of the client, for a server that asks for one
    #[arg(long, env = "LEASEHOLD_CERT", requires = "cert_key")]
    #[arg(value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,

    /// PEM file with the private key of --cert
    #[arg(long, env = "LEASEHOLD_CERT_KEY", requires = "cert")]
    #[arg(value_name = "FILE")]
    pub(crate) cert_key: Option<PathBuf>,

    /// The longest time for one reply of Redis, and for opening a connection
    #[arg(long, env = "LEASEHOLD_TIMEOUT", default_value = "1s")]
    #[arg(value_parser = duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,
}

impl RedisArgs {
    /// True if neither `--cluster` nor `--sentinel` is given: then a server of a cluster is a
    /// mistake.
    pub(crate) fn expects_no_cluster(&self) -> bool {
        !self.cluster && self.sentinel.is_none()
    }
}
