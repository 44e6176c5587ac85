//! The public methods that several guards have, as macros: so each is documented once.

/// Implements the methods that do not end a guard. It has a field `core`, a
/// [`GuardCore`](super::guard_core::GuardCore).
macro_rules! guard_methods {
    ($guard:ident) => {
        /// What the guards of locks and of permits have in common. The *hold* is what the guard has
        /// of its lock, or its permit.
        impl $guard {
            forward! { to core:
                /// Returns the name of the lock, or of the semaphore.
                #[must_use]
                pub fn name(&self) -> &str;

                /// Fails as soon as this process knows that the hold is lost. No I/O.
                ///
                /// The process knows of a loss at the latest when the lease may have ended by the
                /// local clock, which is a little before it ends in Redis (see
                /// [`remaining`](Self::remaining)). It knows earlier if Redis reports that the hold
                /// was deleted, or that the lock has another owner:
                ///
                /// * The watchdog asks Redis about every second: see
                ///   [`confirm_every`](crate::LockClientBuilder::confirm_every).
                /// * It also learns that from each renewal, and asks once for a lease that is not
                ///   renewed. So a deletion is noticed within two thirds of the lease in any case.
                ///
                /// # Errors
                ///
                /// [`Error::Lost`](crate::Error::Lost), and [`Error::Forked`](crate::Error::Forked)
                /// in a process that was forked from the client's.
                pub fn check(&self) -> Result<()>;

                /// Returns true if [`check`](Self::check) fails because the hold is lost. No I/O.
                #[must_use]
                pub fn is_lost(&self) -> bool;

                /// Returns a channel that gets one message when the hold is lost, for
                /// `recv_timeout` or `select!`. If it is lost already, the message is in it.
                ///
                /// Each call returns a channel of its own. Other threads may receive from clones,
                /// each of which [gets the message, too](crate::Subscription). A hold to which the
                /// lock is handed over has other channels. So every receiver can tell a loss from
                /// the end of the hold:
                ///
                /// | the hold | each `recv` |
                /// |---|---|
                /// | is lost | `Ok(reason)` once, then `Err(RecvError)` |
                /// | has ended, and its last guard is dropped | `Err(RecvError)`, no message before |
                ///
                /// A loss that only the unlock finds is a loss, too.
                ///
                /// The watchdog sends the message at once when it notices the loss. While Redis
                /// hangs, the message is at most a quarter of a command timeout late; it is at most
                /// one command timeout late if the hold began while the watchdog waited for a
                /// reply. [`check`](Self::check) does not depend on the watchdog.
                ///
                /// [`LockGuard`](crate::LockGuard#examples) has an example.
                #[must_use]
                pub fn lost(&self) -> Subscription<LostReason>;

                /// Returns what is left of the lease by the local clock; zero once the hold is
                /// lost. No I/O.
                ///
                /// If Redis keeps the keys ([limits](crate#limits)), no other client can acquire
                /// the lock or this permit within this time, even if no renewal succeeds.
                ///
                /// This is less than what is left in Redis, by a hundredth of the lease and 2 ms
                /// (at most half of the lease), in case the server's clock runs faster.
                #[must_use]
                pub fn remaining(&self) -> Duration;

                /// Extends the lease once, so that at least `duration` of it is left from now on.
                /// Never shortens the lease. The renewals by the watchdog do not change.
                ///
                /// Bounds: 1 ms to 2^53 ms.
                ///
                /// [`LockGuard`](crate::LockGuard#examples) has an example.
                ///
                /// # Errors
                ///
                /// * [`Error::Lost`](crate::Error::Lost) if the hold is lost.
                /// * [`Error::Unavailable`](crate::Error::Unavailable) after one command timeout
                ///   without a reply, [`Error::Redis`](crate::Error::Redis) if Redis refused. This
                ///   process then assumes that the lease was not extended.
                /// * [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a `duration`
                ///   outside its bounds.
                /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the
                ///   client's.
                pub fn extend(&self, duration: Duration) -> Result<()>;

                /// Asks Redis whether this guard still has its hold. [`check`](Self::check) only
                /// knows the result of the last renewal.
                ///
                /// `Ok` means that Redis has confirmed the hold since this call began. A guard of
                /// several locks needs the confirmation of all of them, a guard of a
                /// [`RedLock`](crate::RedLock) that of a majority of the servers. The lease does
                /// not change.
                ///
                /// [`LockGuard`](crate::LockGuard#examples) has an example.
                ///
                /// # Errors
                ///
                /// * [`Error::Lost`](crate::Error::Lost) if the hold is lost: stop the work, as
                ///   after a failed `check`.
                /// * [`Error::Unavailable`](crate::Error::Unavailable) after one command timeout
                ///   without a reply, [`Error::Redis`](crate::Error::Redis) if Redis refused. If
                ///   Redis keeps the keys, the hold goes on for [`remaining`](Self::remaining).
                /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the
                ///   client's.
                pub fn confirm(&self) -> Result<()>;
            }

            /// Executes these commands in Redis if, and only if, this guard still has its hold, and
            /// returns their replies as [`Pipeline::query`][redis-query] does. One script checks
            /// the hold and executes them. So a process that was paused writes nothing late: if
            /// Redis keeps the keys ([limits](crate#limits)), no other holder has had the lock
            /// meanwhile.
            ///
            /// The pipeline is one of the crate `redis`, version 1, which is re-exported as
            /// `leasehold::redis`. `T` is a tuple or a `Vec`, also for one reply, such as `(u64,)`,
            /// and `()` for none.
            ///
            /// * **Keys:** each key is sent as it is written, without the client's namespace. In a
            ///   cluster, it must be in the slot of the lock's key, which has the namespace:
            ///   `{order:42}:state` for the lock `order:42`, and `{shop:order:42}:state` with
            ///   `namespace("shop")`.
            /// * **Together:** no other command is executed between them. A command that fails does
            ///   not end or undo the others, as with EXEC; `atomic` changes nothing.
            /// * **Once:** they are sent once, have one command timeout, and are never repeated
            ///   without a clear reply. If it is not known whether they were executed, they may
            ///   still be until the hold ends in Redis, but not after a later query of this hold. A
            ///   read lock that several threads of a client hold together ends in Redis when the
            ///   last of them unlocks.
            /// * **Limits:** at most 256 commands, and 8 MB. If their replies together have more
            ///   than 64 MB or a million elements, the query is executed, but its result is
            ///   [`Error::Query`](crate::Error::Query). Commands that scripts may not call, that
            ///   wait (`BLPOP`), that call scripts (`EVAL`) or that change the connection
            ///   (`SELECT`) are refused. While they run, Redis serves no other client, as with
            ///   every script. Lua changes some replies: of an integer above 2^53 only the first
            ///   digits are exact.
            /// * **Guards:** a guard of several locks needs names of one client, and in a cluster
            ///   of one slot. A [`RedLock`](crate::RedLock) has no query.
            /// * **Permissions:** the Redis user needs those of the commands that are sent, for
            ///   example of INCRBY for `incr`. See
            ///   [permissions](crate::guide::permissions#queries).
            ///
            /// ```
            /// # fn main() -> leasehold::Result<()> {
            /// # let server = redis_test::server::RedisServer::new();
            /// # let url = &format!("redis://{}", server.addr);
            /// use leasehold::{LockClient, redis};
            ///
            /// let client = LockClient::connect(url)?;
            /// let guard = client.reentrant_lock("order:42").acquire()?;
            /// let mut pipe = redis::pipe();
            /// pipe.set("{order:42}:state", "paid").ignore().incr("{order:42}:version", 1);
            /// let (version,): (u64,) = guard.query(&pipe)?;
            /// assert_eq!(version, 1);
            /// let (state,): (String,) = guard.query(redis::pipe().get("{order:42}:state"))?;
            /// assert_eq!(state, "paid");
            /// guard.query::<()>(redis::pipe().del("{order:42}:state").ignore())?;
            /// # Ok(())
            /// # }
            /// ```
            ///
            /// [redis-query]: https://docs.rs/redis/1/redis/struct.Pipeline.html#method.query
            ///
            /// # Errors
            ///
            /// * [`Error::Lost`](crate::Error::Lost) if the hold is lost.
            /// * [`Error::Query`](crate::Error::Query) if a command failed, if its reply does not
            ///   fit `T`, or if there was no clear reply. After all other errors, none of the
            ///   commands was or will be executed.
            /// * [`Error::Unavailable`](crate::Error::Unavailable) after one command timeout in
            ///   which they could not be sent, and in a cluster for the first query of a hold whose
            ///   slot is being moved. [`Error::Redis`](crate::Error::Redis) if Redis refused all of
            ///   them.
            /// * [`Error::InvalidArgument`](crate::Error::InvalidArgument) for commands beyond the
            ///   limits above, [`Error::Config`](crate::Error::Config) for a guard that has no
            ///   query.
            /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the
            ///   client's.
            pub fn query<T: redis::FromRedisValue>(&self, pipeline: &redis::Pipeline) -> Result<T> {
                self.core.query(pipeline)
            }
        }
    };
}

/// Implements the fencing token of a guard of any lock.
macro_rules! fencing_method {
    ($guard:ident) => {
        impl $guard {
            /// Returns the fencing token of the hold; `None` if the lock is not a
            /// [`FencedLock`](crate::FencedLock). No I/O.
            ///
            /// [`FencedGuard::fencing_token`](crate::FencedGuard::fencing_token) has the details.
            #[must_use]
            pub fn fencing_token(&self) -> Option<u64> {
                self.core.token()
            }
        }
    };
}

/// Implements the method that gives away what a guard has.
macro_rules! token_methods {
    ($guard:ident: #[$adopt:meta]) => {
        impl $guard {
            /// Gives the hold away: returns a text by which
            #[$adopt]
            /// takes it over, once, in this process or another one.
            ///
            /// In Redis, the hold lasts for its whole lease from now on; a fixed lease begins
            /// again. Until it is adopted, no process renews it; it excludes other clients as
            /// before. It then has an owner id of this client that no hold had before. The token
            /// has the name, the kind, the length of the lease, what is left of a limit of its
            /// renewals and of a longer time that `extend` asked for, and the fencing token.
            ///
            /// Such a limit counts the lease until the hold is adopted, all of it, however soon
            /// that is. It is one renewal of
            /// [`renewed_at_most`](crate::Lease::renewed_at_most); if none is left, the adopted
            /// hold is not renewed. It is time of [`held_at_most`](crate::Lease::held_at_most);
            /// close to the limit, it is half of the time that is left, and so is the lease of the
            /// adopted hold.
            ///
            /// If the token may arrive later, call [`extend`](Self::extend) before: the time that
            /// this asks for stays in Redis, and neither this call nor the adopting one shortens
            /// it. So it also counts if the process that adopts the hold dies.
            ///
            /// The token consists of letters, digits and `.`, `-`, `_`. So it can stand in a URL,
            /// in JSON or in a message. It has about 100 bytes, and two more for each byte of the
            /// name. **It is a secret**: each program that has it can take the hold. See
            /// [deployments](crate::guide::deployments#tokens).
            ///
            /// # Errors
            ///
            /// There is no token then, and the guard has ended as by a drop.
            ///
            /// * [`Error::Lost`](crate::Error::Lost) if the hold was lost before.
            /// * [`Error::NotReleased`](crate::Error::NotReleased) after three command timeouts
            ///   without a reply. The watchdog releases the hold.
            /// * [`Error::Redis`](crate::Error::Redis) if Redis refused. The watchdog releases the
            ///   hold, too.
            /// * [`Error::Config`](crate::Error::Config) for a guard of several names, or of a
            ///   [`RedLock`](crate::RedLock).
            /// * [`Error::Forked`](crate::Error::Forked) in a process that was forked from the
            ///   client's.
            #[must_use = "without its token, no program can take the hold over"]
            pub fn into_token(self) -> Result<String> {
                self.core.into_token()
            }
        }
    };
}

/// Implements the methods that end the guard of a lock. They call those of the field `$inner`.
macro_rules! unlock_methods {
    ($guard:ident, $inner:tt) => {
        impl $guard {
            /// Unlocks, and returns the result.
            ///
            /// # Errors
            ///
            /// Those of [`Lock::unlock`](crate::Lock::unlock).
            pub fn unlock(self) -> Result<()> {
                self.$inner.unlock()
            }

            /// Unlocks in this process, and keeps the lock in Redis for `time` from now on,
            /// regardless of the remaining lease. Until then no client can acquire it, including
            /// this one, and [`inspect`](crate::LockClient::inspect) shows another owner id.
            ///
            /// If outer levels of the thread remain, `time` begins when the last of them is
            /// unlocked, and the longest `time` of these levels counts. The same is true of threads
            /// that hold the read lock of a [`ReadWriteLock`](crate::ReadWriteLock) together,
            /// through one client. If a thread with the write lock begins to read before its last
            /// level is unlocked, the lock stays held at least until the lease of its read lock
            /// ends.
            ///
            /// Bounds: 1 ms to 2^53 ms. With zero, the call is [`unlock`](Self::unlock).
            ///
            /// # Errors
            ///
            /// * Those of [`Lock::unlock`](crate::Lock::unlock).
            /// * [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a `time` outside its
            ///   bounds, and for a write lock whose thread also holds the read lock. The guard then
            ///   unlocks at once, as if it were dropped.
            /// * [`Error::NotReleased`](crate::Error::NotReleased): nothing is repeated in the
            ///   background.
            pub fn unlock_after(self, time: Duration) -> Result<()> {
                self.$inner.unlock_after(time)
            }

            /// Unlocks in this process, and keeps the lock in Redis until `time` has passed since
            /// it was acquired, as [`unlock_after`](Self::unlock_after) does for the rest. The time
            /// of a thread with several levels begins with the first of them. If `time` has passed
            /// already, the call is [`unlock`](Self::unlock).
            ///
            /// So a job can run at most once in a period: the lease is [fixed](crate::Lease::fixed)
            /// and as long as the period, and after the work the lock is kept for the rest of it.
            /// With a renewed lease, the job would run again in the same period if its process
            /// died. [`LockGuard`](crate::LockGuard#examples) has an example.
            ///
            /// # Errors
            ///
            /// Those of [`unlock_after`](Self::unlock_after).
            pub fn unlock_at_least(self, time: Duration) -> Result<()> {
                self.$inner.unlock_at_least(time)
            }
        }
    };
}

pub(super) use fencing_method;
pub(super) use guard_methods;
pub(super) use token_methods;
pub(super) use unlock_methods;
