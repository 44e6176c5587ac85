//! The errors of this crate.

mod construction;
mod hint;
mod lost_reason;
mod properties;
mod text;
mod time_limit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use hint::{Hint, Permission};
pub use lost_reason::LostReason;
pub use time_limit::TimeLimit;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a [credentials provider](crate::LockClientBuilder::credentials_provider) failed: any error,
/// or a text.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The underlying cause of an error, which clones share.
pub(crate) type SharedCause = Arc<dyn std::error::Error + Send + Sync>;

/// Why a call failed.
///
/// It is not an error if another client or thread holds the lock:
/// [`try_lock`](crate::Lock::try_lock) returns false then. Only a function with `#[locked]`, which
/// cannot return that, returns [`HeldByAnother`](Self::HeldByAnother).
///
/// Every error that concerns a lock, a semaphore or a latch contains its name, which
/// [`lock_name`](Self::lock_name) returns. The field `lock` is empty if a call concerns no single
/// one, such as [`ping`](crate::LockClient::ping). Every error that concerns a server contains its
/// node (`host:port` or socket path). [`time_limit`](Self::time_limit) returns which limit ended
/// the call. No error contains a password: the error of a refused log-in ends before it. An error
/// contains a user name only if the server repeats it in its reply.
///
/// The text of an error contains the text of its cause. So
/// [`source`](std::error::Error::source) does not return the cause again; programs read it from the
/// field `cause`, and downcast it to `leasehold::redis::RedisError`
/// or [`admin::LookUpFailed`](crate::admin::LookUpFailed); other causes are texts. `Debug` writes
/// the same text as `Display`, because it is what a user sees of a `main` that returns a `Result`.
/// Clones share the cause.
///
/// ```no_run
/// use leasehold::{Error, LockClient};
///
/// let client = LockClient::connect("redis://127.0.0.1:6379")?;
/// match client.reentrant_lock("invoice:42").acquire() {
///     Ok(guard) => {
///         println!("locked");
///         guard.unlock()?;
///     }
///     Err(Error::Unavailable { node, cause, .. }) => eprintln!("no reply from {node}: {cause}"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
///
/// # Retries
///
/// Repeat an acquire only after an error that [is transient](Self::is_transient). Never repeat a
/// function that acquires a lock, works and unlocks: its work may have run. No error of an unlock
/// is transient, such as [`NotReleased`](Self::NotReleased) and [`Lost`](Self::Lost). But calls in
/// the work have transient errors: [`extend`](crate::LockGuard::extend),
/// [`confirm`](crate::LockGuard::confirm), [`Condition::wait`](crate::Condition::wait), the acquire
/// of a nested lock. [`run`](crate::ReentrantLock::run) keeps both apart: only after
/// [`RunError::NotRun`](crate::RunError::NotRun) the work has not begun.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The calling thread does not hold the lock: it never acquired it, has already released it, or
    /// another thread acquired it. Call the method in the thread that holds the lock.
    /// [`unlock`](crate::Lock::unlock) also returns this error if only guards of the thread hold
    /// the lock; unlock a guard instead. While the thread waits on a
    /// [`Condition`](crate::Condition), it does not hold the lock. This is Java's
    /// `IllegalMonitorStateException`.
    #[error("{}", text::not_held(.lock, *.by_guard))]
    NotHeld {
        /// The name of the lock. Empty outside of a function with [`#[locked]`](crate::locked).
        lock: String,
        /// True if the thread holds the lock, but only by guards.
        by_guard: bool,
    },

    /// The lock was held and is lost. Stop the work that the lock protects, then unlock it (or drop
    /// the guard). The thread that held it cannot acquire it again before that. An
    /// [`OwnedGuard`](crate::OwnedGuard) or a [`PermitGuard`](crate::PermitGuard) belongs to no
    /// thread: after its loss, each thread can acquire again at once.
    ///
    /// With [`LostReason::TokenSpent`], [`adopt`](crate::LockClient::adopt) took nothing over: do
    /// not begin the work.
    #[error("{}", text::lost(.lock, *.reason))]
    Lost {
        /// The name of the lock.
        lock: String,
        /// How it was lost.
        reason: LostReason,
    },

    /// Another client or thread held the lock until the end of the wait, or had unlocked it by
    /// [`unlock_after`](crate::LockGuard::unlock_after). Call the function again later, or let it
    /// wait longer. Only a function with `#[locked]` returns this error.
    #[error(
        "lock {lock:?} is not free after a wait of {waited:.1?}: {}; try again later, or wait \
         longer",
        text::owner(.owner.as_deref())
    )]
    HeldByAnother {
        /// The name of the lock.
        lock: String,
        /// How long the call waited for it.
        waited: Duration,
        /// The owner id that the lock then had in Redis, if it is known:
        /// [`LockClient::holder`](crate::LockClient::holder) finds its process.
        owner: Option<String>,
    },

    /// Within the time limit of the call, Redis sent no reply that says whether the request was
    /// executed, or only errors that a retry can overcome. The request may or may not have been
    /// executed. The client undoes an acquire in the background. A release that gets no clear reply
    /// is [`NotReleased`](Self::NotReleased).
    ///
    /// Check the server and the network, then repeat an acquire. If the server is slow rather than
    /// away, raise the setting that the `limit` names.
    ///
    /// Also the error of a [`build`](crate::LockClientBuilder::build) whose credentials provider
    /// has failed, or has not returned in time.
    #[error(
        "{}no clear reply from Redis at {node} within {waited:.1?}{} ({cause}); check the server, \
         then try again",
        text::about(.lock),
        text::limited(*.limit)
    )]
    Unavailable {
        /// The name of the lock. Empty in the error of [`ping`](crate::LockClient::ping).
        lock: String,
        /// The node to which the request was sent. If no connection to it was ever opened, and it
        /// is in no URL, also the cluster or the sentinels that announce it.
        node: String,
        /// How long the call took.
        waited: Duration,
        /// The time limit that ended the call. `None` if the call had time left, and its request is
        /// not repeated: that of [`ping`](crate::LockClient::ping), for example.
        limit: Option<TimeLimit>,
        /// The last failure. A refused connection or an error reply is a `redis::RedisError`.
        cause: SharedCause,
    },

    /// The lock was held until its unlock, so the work under it was done, but the release got no
    /// clear reply from Redis within the time limit of the call. Do not repeat the work. The lock
    /// ends by itself within its lease, and the watchdog still tries to release it (but not after
    /// [`unlock_after`](crate::LockGuard::unlock_after)). If the server was replaced by a failover
    /// during the release, the lock may have been lost before.
    ///
    /// Also the error of a [`shutdown`](crate::LockClient::shutdown), of permits that are returned,
    /// and of a latch that is counted down. If it `is_change`, do not repeat the call: the watchdog
    /// does, and Redis then executes it once.
    #[error(
        "{}{}",
        text::about(.lock),
        text::not_released(.node, *.limit, .cause, *.is_change, *.retried)
    )]
    NotReleased {
        /// The name of the lock. Empty in the error of a
        /// [`shutdown`](crate::LockClient::shutdown).
        lock: String,
        /// The node to which the request was sent.
        node: String,
        /// The time limit that ended the call. `None` if the call had time left.
        limit: Option<TimeLimit>,
        /// The last failure. A refused connection or an error reply is a `redis::RedisError`.
        cause: SharedCause,
        /// True if the watchdog still tries to release it.
        retried: bool,
        /// True for a call that changes a number in Redis, such as
        /// [`Semaphore::release`](crate::Semaphore::release) and
        /// [`count_down`](crate::CountDownLatch::count_down).
        is_change: bool,
    },

    /// A [`query`](crate::LockGuard::query) was executed, or it is not known whether it was. After
    /// all other errors of a query, none of its commands was or will be executed.
    ///
    /// Do not repeat the query, because its commands may have an effect twice. If it is not known
    /// whether they were executed, read what they write by another query under the same lock: after
    /// that, Redis does not execute them any more.
    #[error("{}{}", text::about(.lock), text::query(.node, .cause, *.executed))]
    Query {
        /// The name of the lock.
        lock: String,
        /// The node to which the request was sent.
        node: String,
        /// Why a command failed, or why its reply does not fit the type: a `redis::RedisError`. Or
        /// the failure after which there was no clear reply.
        cause: SharedCause,
        /// True if Redis has executed the commands. Those that failed had no effect, the others had
        /// theirs. False if there was no clear reply: Redis may have executed them, or may execute
        /// them later, but not after the lock is released or lost.
        executed: bool,
    },

    /// The lock was granted, but fewer replicas confirmed it in time than
    /// [`min_replicas`](crate::LockClientBuilder::min_replicas) requires. So it was released. Check
    /// the replicas, then acquire it again; or require fewer, or give them more time.
    #[error(
        "{lock:?}: only {confirmed} of {wanted} replicas of {node} confirmed it in time, so it was \
         released; check the replicas, or require fewer"
    )]
    TooFewReplicas {
        /// The name of the lock.
        lock: String,
        /// The node of the master.
        node: String,
        /// How many replicas are required.
        wanted: u32,
        /// How many replicas confirmed the last attempt.
        confirmed: u32,
    },

    /// The client was created before this process was forked from its parent. The client's locks,
    /// connections and threads belong to the parent. A child that needs locks must be forked before
    /// any client is created, or must execute another program (`exec`), because a fork copies the
    /// mutexes of the parent's threads in whatever state they are.
    #[error(
        "{}the client was created before this process was forked; fork before creating a client, \
         or call exec",
        text::about(.lock)
    )]
    Forked {
        /// The name of the lock. Empty if the call concerns no lock.
        lock: String,
    },

    /// The client was shut down before or during the call: see
    /// [`LockClient::shutdown`](crate::LockClient::shutdown). The call acquired nothing: one
    /// that is granted a lock at that moment returns `Ok`, and the lock is lost. End the work, or
    /// build another client.
    #[error("{}the client was shut down; make another client", text::about(.lock))]
    ShutDown {
        /// The name of the lock. Empty if the call concerns no lock.
        lock: String,
    },

    /// The [`Interrupt`](crate::Interrupt) was raised before the lock was acquired. End the work:
    /// the interrupt stays raised. After a wait on a [`Condition`](crate::Condition): before a
    /// notification; the lock is held.
    #[error("waiting for {lock:?} was interrupted")]
    Interrupted {
        /// The name of the lock.
        lock: String,
    },

    /// The calling thread holds the read lock of a [`ReadWriteLock`](crate::ReadWriteLock), and
    /// tried to acquire the write lock, for which it would wait until it unlocks the read lock
    /// itself. Unlock the read lock first, or acquire the write lock from the start.
    #[error(
        "lock {lock:?}: this thread holds the read lock, so it cannot acquire the write lock; \
         unlock the read lock first"
    )]
    Upgrade {
        /// The name of the lock.
        lock: String,
    },

    /// A key of this lock holds another value: a lock of another kind that cannot share the name,
    /// or data of another type. A hash is a lock only if its fields are owner ids,
    /// `<client uuid>:<number>`, as this crate and Redisson write them. Nothing was changed. Choose
    /// another name, or use the kind that was found.
    #[error(
        "the name {lock:?} is used for a value of another type at {node}, {found}; choose another \
         name, or use the kind of lock, semaphore or latch that was found"
    )]
    WrongType {
        /// The name of the lock.
        lock: String,
        /// The node to which the request was sent.
        node: String,
        /// The type of the value, and its key.
        found: String,
    },

    /// The configuration of the client is invalid: a setting outside its bounds, a URL with an
    /// unknown parameter, a master that the sentinels do not know, a default client that is missing
    /// or set twice, a query or a token of a lock that has none. Correct the setting as the `rule`
    /// says.
    #[error("{}{field} is {value}: {rule}", text::about(.lock))]
    Config {
        /// The name of the lock, if a call for a lock found the mistake. Empty in the error of
        /// [`build`](crate::LockClientBuilder::build).
        lock: String,
        /// The name of the setting.
        field: &'static str,
        /// Its value, without secrets.
        value: Box<str>,
        /// The rule that the value breaks.
        rule: Box<str>,
    },

    /// An argument of the call, or of the method that made the handle, is invalid: a lease or a
    /// number of permits outside its bounds, an empty name, a name that occurs twice in a list, a
    /// [`RedLock`](crate::RedLock) with an even number of servers. Or the name cannot be used so: a
    /// fenced lock or a Redlock of a name that the thread holds as a plain lock, a
    /// [`FairLock`](crate::FairLock) of a name that is in use as a plain or fenced lock or the
    /// other way round. No lock was acquired or extended. Correct the program as the `rule` says.
    #[error("{}{argument} is {value}: {rule}", text::about_unless(.value, .lock))]
    InvalidArgument {
        /// The name of the lock, the semaphore or the latch. Empty if the error concerns none, and
        /// if the name itself is empty or too long.
        lock: String,
        /// The argument. `name` if the name cannot be used so.
        argument: &'static str,
        /// Its value.
        value: Box<str>,
        /// The rule that the value breaks.
        rule: Box<str>,
    },

    /// The system started no thread for a client: the limit of threads or of memory is reached. No
    /// client was made. Raise the limit, or end other threads, then build the client again.
    #[error(
        "the system started no thread for the client ({cause}); raise the limit of threads or of \
         memory (ulimit -u, pids.max of the control group), or end other threads"
    )]
    NoThread {
        /// The error of the system: a `std::io::Error`, if it is known.
        cause: SharedCause,
    },

    /// Redis refused the request, or one side refused the other's certificate. A retry fails until
    /// the cause is removed: memory, a permission, a password, a certificate. The `hint` says what
    /// to change.
    #[error(
        "{}Redis at {node} refused: {cause}{}",
        text::about(.lock),
        .hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default()
    )]
    Redis {
        /// The name of the lock. Empty in the error of [`ping`](crate::LockClient::ping).
        lock: String,
        /// The node that refused.
        node: String,
        /// The reason: a `redis::RedisError`.
        cause: SharedCause,
        /// What to change, if that follows from the reply.
        hint: Option<Box<Hint>>,
    },
}

/// The text of the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
