//! The begin and the end of the use of a client: its health check.

use super::LockClient;
use crate::error::Result;
use crate::request::PING;

impl LockClient {
    /// Checks that the servers that have the locks reply, with one `PING` to each: the health check
    /// of the client.
    ///
    /// These are the server of the URL, the master behind the sentinels, or every primary of the
    /// cluster. All replies are awaited at the same time. Sentinels and cluster servers are asked
    /// where the locks are only if the client does not know it, or if a server has failed since.
    /// The check uses a connection of the pool. For a [`RedLock`](crate::RedLock), check each of its clients.
    ///
    /// A server that replies can still refuse a lock, for example because its memory is full or a
    /// permission is missing: `leasehold doctor` checks more.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::connect(url)?;
    /// # while client.ping().is_err() {} // waits until the server is there
    /// match client.ping() {
    ///     Ok(()) => println!("ready"),
    ///     Err(error) => println!("not ready: {error}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// That of the first server without a good reply. It names the node; the name of the lock is
    /// `(none: ping)`.
    ///
    /// * [`Error::Unavailable`](crate::Error::Unavailable) without a reply within one
    ///   [`command_timeout`](crate::LockClientBuilder::command_timeout), opening the connection included,
    ///   or if the server is not ready (`LOADING`, `MASTERDOWN`).
    /// * [`Error::Redis`](crate::Error::Redis) if the server refuses (a wrong password, a
    ///   certificate, a failed save of its data).
    /// * [`Error::Config`](crate::Error::Config) if the sentinels do not know the master.
    /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the client's.
    pub fn ping(&self) -> Result<()> {
        self.core.check_process(PING)?;
        self.core.redis.ping()
    }
}
