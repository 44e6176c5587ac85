//! A small Redis in the process of a test.

mod connection;
mod event_loop;
mod handle;
mod host;
mod server;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{ClientClock, HeldLock, Stopped, TestClock};
use crate::known_scripts::KnownScripts;
use handle::Handle;
use server::{Keyspace, Value};

/// The lease of a lock that another client has taken over, in milliseconds.
const LEASE_OF_OTHER: i64 = 30_000;

/// A small Redis in this process. `leasehold::testing::InMemoryRedis` has its methods, and makes
/// clients of it.
///
/// Clones are the same server. It ends when the last clone and the last of its clients are dropped.
///
/// # Panics
///
/// Methods that change the time, a lock or the server wait until the threads of the clients have
/// noticed that. They panic if a thread is busy for 10 seconds of real time, for example in a log
/// subscriber, or because its request gets no reply and its `command_timeout` is longer. They also
/// panic if the thread of the server has ended after an error of the system.
#[derive(Clone)]
pub struct InMemoryRedis {
    handle: Arc<Handle>,
    clock: Arc<TestClock>,
}

impl InMemoryRedis {
    /// Starts a server that knows these scripts. `now` reads the clock of its clients: the time
    /// since the start of that clock.
    ///
    /// # Errors
    ///
    /// Those of the system, which refuses a port on loopback or a thread.
    pub fn start(scripts: KnownScripts, now: fn() -> Duration) -> io::Result<Self> {
        let handle = Arc::new(Handle::start(scripts)?);
        let clock = Arc::new(TestClock::new(Arc::clone(&handle) as _, now));
        Ok(Self { handle, clock })
    }

    /// The clock of the clients of this server. It keeps the server running.
    #[doc(hidden)]
    #[must_use]
    pub fn clock(&self) -> ClientClock {
        ClientClock::of(&self.clock)
    }

    /// The URL of the server, for other clients in this process or in others, for example to look
    /// at the keys. Tests cannot move the time of such a client.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The address of the server, as `host:port`, for a `FaultProxy`.
    #[must_use]
    pub fn address(&self) -> String {
        self.handle.address.to_string()
    }

    /// Moves the time of the server and its clients forward. The watchdogs of the clients renew
    /// their leases meanwhile, as they would in that time, so renewed locks stay held. Fixed leases
    /// end, and so do the waits of threads whose deadline is reached.
    ///
    /// Other threads may use the clients at the same time, and may advance it, too. The time is
    /// moved in steps, and only while no call is under way or all of them wait: a call that begins
    /// meanwhile waits for the end of a step.
    ///
    /// When this returns, the watchdogs have done what was due, and each waiting thread has got its
    /// lock, or has given up, or waits again. Real time passes, too, so leave some time between
    /// what must have happened and what must not. This takes about a millisecond of real time for
    /// each renewal and, while threads wait, for each two seconds.
    ///
    /// The clients' log and their counters of durations keep the real time. A call for a lock of
    /// several clients (`RedLock`) waits by the time of the first client.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use std::time::Duration;
    /// use leasehold::Lease;
    /// use leasehold::testing::InMemoryRedis;
    ///
    /// let redis = InMemoryRedis::start()?;
    /// let (one, other) = (redis.client()?, redis.client()?);
    /// let minute = Lease::fixed(Duration::from_secs(60));
    /// let _guard = one.reentrant_lock("job").acquire_with(minute)?;
    ///
    /// redis.advance(Duration::from_secs(40));
    /// assert!(other.reentrant_lock("job").is_locked()?);
    /// redis.advance(Duration::from_secs(20));
    /// assert!(!other.reentrant_lock("job").is_locked()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&self, time: Duration) {
        let mut left = time;
        loop {
            let stopped = self.clock.stop();
            if left.is_zero() {
                return;
            }
            let step = stopped.next_step(left);
            self.skip(&stopped, step);
            left -= step;
        }
    }

    /// Moves the time of the server and its clients forward without giving the clients the time to
    /// do anything, as if this process had been suspended. Leases that are shorter than `time` end,
    /// and their holders are notified (`LostReason::Expired`) before this returns.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use std::time::Duration;
    /// use leasehold::testing::InMemoryRedis;
    /// use leasehold::{Error, LostReason};
    ///
    /// let redis = InMemoryRedis::start()?;
    /// let guard = redis.client()?.reentrant_lock("job").acquire()?;
    /// redis.pause_process(Duration::from_secs(60));
    /// assert!(matches!(guard.check(), Err(Error::Lost { reason: LostReason::Expired, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause_process(&self, time: Duration) {
        self.skip(&self.clock.stop(), time);
        self.clock.settle();
    }

    /// Waits until at least this many threads wait in calls of the clients of this server. So a
    /// test knows that a thread that it has started waits for a lock before it
    /// [advances](Self::advance) the time.
    ///
    /// Returns false if there are still fewer after 5 seconds of real time.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use std::thread;
    /// use std::time::Duration;
    /// use leasehold::Lease;
    /// use leasehold::testing::InMemoryRedis;
    ///
    /// let redis = InMemoryRedis::start()?;
    /// let (one, other) = (redis.client()?, redis.client()?);
    /// let _guard = one.reentrant_lock("job").acquire()?;
    ///
    /// let ten_seconds = Duration::from_secs(10);
    /// let waiting = thread::spawn(move || {
    ///     other.reentrant_lock("job").try_lock(ten_seconds, Lease::RENEWED)
    /// });
    /// assert!(redis.await_waiting(1));
    /// redis.advance(ten_seconds);
    /// assert_eq!(waiting.join().unwrap()?, false);    // after a few milliseconds
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn await_waiting(&self, threads: usize) -> bool {
        self.clock.await_sleeping(threads)
    }

    /// Deletes a lock, as an operator or an eviction does, and returns when the clients that held
    /// it are notified (`LostReason::Deleted`). `name` is the name of the lock, without the
    /// namespace. Of a `ReadWriteLock`, all holds are lost. Of a `LeasedSemaphore`, the key of the
    /// leases is deleted, so the leased permits are not available again.
    ///
    /// Returns false, and does nothing, if no client of this server holds such a lock.
    #[must_use = "false means that no client holds such a lock"]
    pub fn lose(&self, name: &str) -> bool {
        self.take_away(name, delete)
    }

    /// Gives a lock to another owner, and returns when the clients that held it are notified
    /// (`LostReason::Taken`). The new owner is no client of this server. It has the lock for 30
    /// seconds: [`advance`](Self::advance) ends that. The permits of a semaphore are lost as with
    /// [`lose`](Self::lose).
    ///
    /// Returns false, and does nothing, if no client of this server holds such a lock.
    #[must_use = "false means that no client holds such a lock"]
    pub fn take_over(&self, name: &str) -> bool {
        self.take_away(name, take_over)
    }

    fn take_away(&self, name: &str, how: fn(&mut Keyspace, HeldLock)) -> bool {
        let stopped = self.clock.stop();
        let held = stopped.held(name);
        let is_held = !held.is_empty();
        self.handle.with(move |host| {
            host.with_keys(|keys| held.into_iter().for_each(|lock| how(keys, lock)));
        });
        stopped.confirm(name);
        drop(stopped);
        self.clock.settle();
        is_held
    }

    /// Makes the server unavailable, or available again.
    ///
    /// While it is unavailable, it closes all connections. Calls of its clients behave as with a
    /// Redis that is down: they try again until their time limits, and then fail with
    /// `Error::Unavailable`. The locks stay held until their leases end. [`advance`](Self::advance)
    /// ends both. A test whose only thread makes the call sets a short `command_timeout`.
    ///
    /// When the server is available again, the watchdogs have renewed and released what they could
    /// not before this returns.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use std::time::Duration;
    /// use leasehold::testing::InMemoryRedis;
    /// use leasehold::{Error, LostReason};
    ///
    /// let redis = InMemoryRedis::start()?;
    /// let client = redis.builder().command_timeout(Duration::from_millis(200)).build()?;
    /// let guard = client.reentrant_lock("job").acquire()?;
    ///
    /// redis.set_available(false);
    /// let refused = client.reentrant_lock("other").try_acquire_now();
    /// assert!(matches!(refused, Err(Error::Unavailable { .. })));
    /// guard.check()?;
    ///
    /// redis.advance(Duration::from_secs(30));
    /// assert!(matches!(guard.check(), Err(Error::Lost { reason: LostReason::Expired, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_available(&self, is_available: bool) {
        self.handle
            .with(move |host| host.set_available(is_available));
        // What has begun before may fail, and would then be due only later.
        self.clock.stop().skip(Duration::ZERO);
        self.clock.settle();
    }

    /// Sets the time between a command and its reply, in real time. The server executes the command
    /// at once. With a time that is longer than the `command_timeout` of the client, the server
    /// executes the requests of its calls, but the calls get no reply in time.
    ///
    /// Default: zero.
    pub fn set_delay(&self, delay: Duration) {
        self.handle.with(move |host| host.set_delay(delay));
    }

    /// First on the server, so that no lease is longer for its holder than on the server.
    fn skip(&self, stopped: &Stopped<'_>, time: Duration) {
        self.handle.with(move |host| host.advance(time));
        stopped.skip(time);
    }
}

fn delete(keys: &mut Keyspace, lock: HeldLock) {
    keys.remove(lock.key.as_bytes());
}

fn take_over(keys: &mut Keyspace, lock: HeldLock) {
    let Some(fields) = lock.taken_over else {
        return delete(keys, lock);
    };
    let fields = fields.into_iter();
    let fields = fields.map(|(field, value)| (field.into_bytes(), value.into_bytes()));
    let key = lock.key.as_bytes();
    keys.set(key, Value::Hash(fields.collect()));
    keys.set_time_to_live(key, Some(LEASE_OF_OTHER));
}

impl fmt::Debug for InMemoryRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryRedis")
            .field("address", &self.handle.address)
            .finish_non_exhaustive()
    }
}
