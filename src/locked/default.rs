//! The default client of `#[locked]`.

use std::sync::OnceLock;

use crate::client::LockClient;
use crate::error::{Error, Result};

static DEFAULT: OnceLock<LockClient> = OnceLock::new();

/// Its name in errors.
const FIELD: &str = "default client";

/// Sets the client of all functions with [`#[locked]`](crate::locked) that have no `client`
/// argument.
///
/// Call it once in a process, before the first call of such a function, for instance at the start
/// of `main`. The client and its threads stay until the process ends.
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
/// [`Error::Config`] if a default client is set already. That client stays.
pub fn set_default_client(client: LockClient) -> Result<()> {
    let rule = "set_default_client can be called only once in a process";
    let is_set = |_| Error::config(FIELD, "already set", rule);
    DEFAULT.set(client).map_err(is_set)
}

/// The default client; `lock` is the name for the error message.
pub(super) fn default_client(lock: &str) -> Result<&'static LockClient> {
    let rule = "call leasehold::set_default_client at the start of the program, \
                or write #[locked(client = ...)]";
    let missing = || Error::config(FIELD, "not set", rule).concerning(lock);
    DEFAULT.get().ok_or_else(missing)
}
