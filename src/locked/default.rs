//! The client of functions that name none.

use std::sync::OnceLock;

use crate::client::LockClient;
use crate::error::{Error, Result};

static DEFAULT: OnceLock<LockClient> = OnceLock::new();

/// Sets the client of all functions with [`#[locked]`](crate::locked) that name none. Once for the whole
/// process, before the first of them is called: best at the start of `main`.
///
/// The process keeps it, and its threads, until it ends.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{LockClient, locked};
///
/// #[locked(key = "report:{day}")]
/// fn write_report(day: u32) -> leasehold::Result<()> {
///     Ok(())
/// }
///
/// leasehold::set_default_client(LockClient::connect(url)?)?;
/// write_report(1)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Config`] if it is set already; the first one stays.
pub fn set_default_client(client: LockClient) -> Result<()> {
    DEFAULT.set(client).map_err(|_| Error::Config {
        field: "default client",
        value: "set already".into(),
        rule: "set_default_client is called once in a process".into(),
    })
}

/// For the lock of this name.
pub(super) fn default_client(lock: &str) -> Result<&'static LockClient> {
    DEFAULT.get().ok_or_else(|| Error::Config {
        field: "default client",
        value: format!("not set, but lock {lock:?} is to be taken by it"),
        rule: "call leasehold::set_default_client at the start of the program, or write #[locked(client = ...)]".into(),
    })
}
