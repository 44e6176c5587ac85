//! The options for Redis, which all commands have.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;

/// The longest time for one reply.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A longer time, or one without a unit, is probably meant as the time to wait for a lock.
fn timeout(text: &str) -> Result<Duration, String> {
    let why = match humantime::parse_duration(text) {
        Ok(time) if time <= LONGEST_TIMEOUT => return Ok(time),
        Ok(_) => "more than 1m".into(),
        Err(error) => format!("{error}; write 5s or 500ms"),
    };
    Err(format!(
        "{why}; this is the time for one reply of Redis, and --wait is the time to wait for a lock"
    ))
}

/// The servers, and how they are deployed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Redis")]
pub(crate) struct RedisArgs {
    /// redis://[user:password@]host[:port][/database], rediss:// for TLS, or redis+unix:///path;
    /// several with commas. Default: REDIS_URL, or else redis://127.0.0.1:6379
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    #[arg(value_name = "URL[,URL..]")]
    pub(crate) url: Option<String>,

    /// The URLs are sentinels of this master
    #[arg(long, env = "LEASEHOLD_SENTINEL", value_name = "MASTER")]
    pub(crate) sentinel: Option<String>,

    /// The URLs are servers of one cluster
    #[arg(long, env = "LEASEHOLD_CLUSTER", value_parser = FalseyValueParser::new())]
    pub(crate) cluster: bool,

    /// The URLs are independent servers, three, five or more; a majority must grant a lock
    #[arg(long, env = "LEASEHOLD_REDLOCK", value_parser = FalseyValueParser::new())]
    pub(crate) redlock: bool,

    /// How many replicas must confirm a lock within 100 ms
    #[arg(long, env = "LEASEHOLD_MIN_REPLICAS", value_name = "NUMBER")]
    pub(crate) min_replicas: Option<u32>,

    /// The user; the password is in LEASEHOLD_PASSWORD. A URL with a password overrides both
    /// variables, unless it is a sentinel's
    #[arg(
        long,
        env = "LEASEHOLD_USER",
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub(crate) user: Option<String>,

    /// A file with the password, instead of LEASEHOLD_PASSWORD; read again when a server refuses a
    /// login
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

    /// PEM file with the authorities for rediss://, instead of the system's
    #[arg(long, env = "LEASEHOLD_CACERT", value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// PEM file with the client's certificate
    #[arg(long, env = "LEASEHOLD_CERT", requires = "cert_key")]
    #[arg(value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,

    /// PEM file with the private key of --cert
    #[arg(long, env = "LEASEHOLD_CERT_KEY", requires = "cert")]
    #[arg(value_name = "FILE")]
    pub(crate) cert_key: Option<PathBuf>,

    /// The time for one reply of Redis, and for opening a connection
    #[arg(long, env = "LEASEHOLD_TIMEOUT", default_value = "1s")]
    #[arg(value_parser = timeout, value_name = "DURATION")]
    pub(crate) timeout: Duration,
}

impl RedisArgs {
    /// True if neither `--cluster` nor `--sentinel` is given: then a server of a cluster is a
    /// mistake.
    pub(crate) fn expects_no_cluster(&self) -> bool {
        !self.cluster && self.sentinel.is_none()
    }
}
