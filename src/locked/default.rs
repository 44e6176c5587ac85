//! The default client of `#[locked]`.

#[cfg(feature = "testing")]
use std::cell::RefCell;
use std::sync::OnceLock;

use crate::client::LockClient;
use crate::error::{Error, Result};

static DEFAULT: OnceLock<LockClient> = OnceLock::new();

#[cfg(feature = "testing")]
thread_local! {
    /// The client of [`with_default_client`] on this thread.
    static REPLACEMENT: RefCell<Option<LockClient>> = const { RefCell::new(None) };
}

/// Its name in errors.
const FIELD: &str = "default client";

/// Sets the client of all functions with [`#[locked]`](crate::locked) that have no `client`
/// argument.
///
/// Call it once in a process, before the first call of such a function, for instance at the start
/// of `main`. The client and its threads stay until the process ends. Tests replace it by
/// `testing::with_default_client`.
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

/// Runs `work`, in which `client` is the default client of the calling thread: that of functions
/// with [`#[locked]`](crate::locked) without a `client` argument. So each test has a client of its
/// own, also if tests run at the same time.
///
/// On other threads, also those that `work` starts, the default client is that of
/// [`set_default_client`](crate::set_default_client), unless they call this function, too. Calls
/// may be nested. Needs the features `testing` and `macros`.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use leasehold::testing::with_default_client;
/// use leasehold::{LockClient, locked};
///
/// #[locked(key = "report:{day}")]
/// fn write_report(day: u32) -> leasehold::Result<u32> {
///     Ok(day)
/// }
///
/// let client = LockClient::in_memory()?;
/// let report = with_default_client(&client, || write_report(1))?;
/// assert_eq!((report, client.stats().acquisitions), (1, 1));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "testing")]
pub fn with_default_client<T>(client: &LockClient, work: impl FnOnce() -> T) -> T {
    /// The replacement before this one.
    struct Outer(Option<LockClient>);

    impl Drop for Outer {
        fn drop(&mut self) {
            REPLACEMENT.set(self.0.take());
        }
    }

    let _outer = Outer(REPLACEMENT.replace(Some(client.clone())));
    work()
}

/// The default client; `lock` is the name for the error message.
pub(super) fn default_client(lock: &str) -> Result<LockClient> {
    // `try_with`: a destructor of an ending thread may call a locked function.
    #[cfg(feature = "testing")]
    if let Ok(Some(client)) = REPLACEMENT.try_with(|client| client.borrow().clone()) {
        return Ok(client);
    }
    let rule = "call leasehold::set_default_client at the start of the program, \
                or write #[locked(client = ...)]";
    let missing = || Error::config(FIELD, "not set", rule).concerning(lock);
    DEFAULT.get().cloned().ok_or_else(missing)
}
