//! The health check and the shutdown of a client.

use std::time::Duration;

use super::LockClient;
use crate::base::Moment;
use crate::error::{Cause, Error, Result, TimeLimit};

impl LockClient {
    /// Checks that the servers that have the locks reply, with one `PING` to each: the health check
    /// of the client.
    ///
    /// These are the server of the URL, the master behind the sentinels, or every primary of the
    /// cluster. All replies are awaited at the same time. Sentinels and cluster servers are asked
    /// where the locks are only if the client does not know it, or if a server has failed since.
    /// The check uses the connections of the client's calls. For a [`RedLock`](crate::RedLock),
    /// check each of its clients.
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
    /// empty.
    ///
    /// * [`Error::Unavailable`] without a reply within one
    ///   [`command_timeout`](crate::LockClientBuilder::command_timeout), opening the connection
    ///   included, or if the server is not ready (`LOADING`, `MASTERDOWN`).
    /// * [`Error::Redis`] if the server refuses (a wrong password, a
    ///   certificate, a failed save of its data).
    /// * [`Error::Config`] if the sentinels do not know the master.
    /// * [`Error::Forked`] in a process that was forked from the client's.
    /// * [`Error::ShutDown`] after a [`shutdown`](Self::shutdown).
    pub fn ping(&self) -> Result<()> {
        self.core.check_open("")?;
        self.core.redis.ping()
    }

    /// Shuts the client down for the whole process: releases its locks and permits, wakes the
    /// threads that wait, and joins the watchdog and the subscribers. Returns within `timeout` even
    /// if a server does not reply. The time of the log subscriber and of the metrics recorder,
    /// which this thread calls for each loss, is not limited.
    ///
    /// It is for the end of a program whose threads cannot be ended one by one. A program that
    /// drops all guards, locks and clients does not need it.
    ///
    /// | what this process has through this client | what becomes of it |
    /// |---|---|
    /// | a lock that a thread or a guard holds | lost ([`LostReason::ShutDown`]), and released |
    /// | a leased permit | lost, and released |
    /// | what a guard [has given away](crate::OwnedGuard::into_token) | stays for its token (2) |
    /// | its guard | [`check`](crate::LockGuard::check) fails; dropping it only logs the loss |
    /// | a lock that lingers | released |
    /// | a thread that waits, also on a condition | gets [`Error::ShutDown`] |
    /// | a lock that Redis grants during the shutdown | is lost, and released |
    /// | a function with `#[locked]` that runs | returns [`Error::Lost`] when its body has ended |
    /// | every later call of a clone or a handle | [`Error::ShutDown`] (1) |
    /// | permits of a [`Semaphore`](crate::Semaphore), which have no owner | stay taken (1) |
    /// | a [`RedLock`](crate::RedLock) | its share at this client is lost |
    ///
    /// 1. Except `unlock`, which returns [`Error::Lost`] or [`Error::NotHeld`], and what other
    ///    processes may wait for: [`Semaphore::release`](crate::Semaphore::release),
    ///    [`add_permits`](crate::Semaphore::add_permits) and
    ///    [`CountDownLatch::count_down`](crate::CountDownLatch::count_down) still ask Redis, but
    ///    are not repeated in the background.
    /// 2. Until it is adopted by another client, or its lease ends. An `into_token` that runs
    ///    returns the token, or [`Error::Lost`] if the hold was released.
    ///
    /// **The work of a thread that holds a lock does not end**: the thread notices the loss like
    /// any other, by [`check`](crate::LockGuard::check) or [`lost`](crate::LockGuard::lost), and
    /// other clients may have the lock by then. So end the work before the shutdown where that is
    /// possible.
    ///
    /// `Ok` means that no call can acquire anything, and that this client has nothing in Redis any
    /// more, with four exceptions: permits of a semaphore; what was given away; a lock that was
    /// lost before the shutdown without a change in Redis (by the limit of its renewals, or with a
    /// majority), which stays until its thread unlocks it or its lease ends; and a lock that has to
    /// stay for a time that [`unlock_after`](crate::LockGuard::unlock_after) was called with. The
    /// thread that logs, that of a credentials provider, and open connections, end with the last
    /// handle. A further call, also at the same time, waits for what is left.
    ///
    /// Do not call this from a log subscriber or a metrics recorder. If a call of the client has
    /// called it, the shutdown waits for that call until `timeout`.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use std::time::Duration;
    /// use leasehold::{Error, LockClient};
    ///
    /// let client = LockClient::connect(url)?;
    /// let lock = client.reentrant_lock("order:pay");
    /// let guard = lock.acquire()?;
    /// client.shutdown(Duration::from_secs(5))?;
    /// assert!(guard.is_lost());
    /// assert!(matches!(lock.acquire(), Err(Error::ShutDown { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The name of the lock in them is empty.
    ///
    /// * [`Error::NotReleased`] if `timeout` was over before everything was released and had ended.
    ///   All holds are lost nevertheless, waiting threads get [`Error::ShutDown`], and no call
    ///   acquires anything. The watchdog continues to release, also what calls leave to it later,
    ///   until the leases are over or the last handle is dropped.
    /// * [`Error::Forked`] in a process that was forked from the client's.
    ///
    /// [`LostReason::ShutDown`]: crate::LostReason::ShutDown
    pub fn shutdown(&self, timeout: Duration) -> Result<()> {
        self.core.check_process("")?;
        let ended = self.core.shut_down(Moment::now().after(timeout));
        ended.map_err(|rest| Error::NotReleased {
            lock: String::new(),
            node: self.core.redis.topology.deployment().as_ref().into(),
            limit: Some(TimeLimit::Wait),
            cause: Cause::from(rest).into(),
            retried: true,
            is_change: false,
        })
    }
}
