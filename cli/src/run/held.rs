//! What is held: a lock, or a permit of a leased semaphore. How it is acquired and released.

use std::time::Duration;

use super::holder::find_holder;
use super::job::signalled;
use super::outer_keys::{OUTER_KEYS, is_outer};
use super::signals::Signals;
use super::waiting_message::WaitingMessage;
use crate::args::{Kind, LockArgs, RedisArgs};
use crate::connect;
use crate::name::shown;
use crate::outcome::{Failure, Result};
use crate::reporter::{is_quiet, say, step};
use leasehold::__Moment as Moment;
use leasehold::admin::lock_of_kind;
use leasehold::{
    Error, Interrupt, Lease, LeasedSemaphore, Lock, LockClient, LockGuard, LostReason, PermitGuard,
    RedLock, Subscription,
};

/// The guard. Dropping it releases the lock or the permit.
#[derive(Debug)]
pub(super) enum Held {
    Lock(LockGuard),
    Permit(PermitGuard),
}

/// What both guards can do.
macro_rules! of_both_guards {
    ($($call:ident -> $result:ty,)*) => {
        impl Held {
            $(pub(super) fn $call(&self) -> $result {
                match self {
                    Self::Lock(guard) => guard.$call(),
                    Self::Permit(guard) => guard.$call(),
                }
            })*
        }
    };
}

of_both_guards! {
    name -> &str,
    check -> leasehold::Result<()>,
    lost -> Subscription<LostReason>,
    remaining -> Duration,
}

/// Checks what clap does not.
pub(super) fn check(args: &LockArgs, redis: &RedisArgs) -> Result<()> {
    if redis.redlock && (args.fenced || args.kind != Kind::REENTRANT) {
        return Err(Failure::usage(
            "--kind and --fenced do not work with --redlock: only a reentrant lock exists on \
             several servers",
        ));
    }
    Ok(())
}

impl Held {
    /// Acquires what the arguments name. Fails if the wait ends first, by its time or by a signal.
    pub(super) fn acquire(args: &LockArgs, redis: &RedisArgs, signals: &Signals) -> Result<Self> {
        let clients = connect::clients(redis, Some(args.lease))?;
        step(format!("waiting for lock {:?}", args.key));
        let asked = Moment::now();
        let message = WaitingMessage::start(args, &clients);
        let acquired = Self::try_acquire(args, redis, &clients, &signals.interrupt);
        // A lock that was acquired does not wait for a request of the message's thread. Otherwise
        // the thread is joined: it has clients, which clean up when they end.
        message.end(!matches!(acquired, Ok(Some(_))));
        if let Some(signal) = signals.ended_the_wait() {
            step(format!("signal {signal} ended the wait"));
            // The lock may have been acquired at the last moment. Its guard releases it.
            drop(acquired);
            return Err(Failure::new(signalled(signal), ""));
        }
        let Some(held) = acquired? else {
            return Err(refused(args, &clients, Moment::now().since(asked)));
        };
        step(format!("acquired lock {:?}", args.key));
        Ok(held)
    }

    /// `None` if the wait ends first.
    fn try_acquire(
        args: &LockArgs,
        redis: &RedisArgs,
        clients: &[LockClient],
        interrupt: &Interrupt,
    ) -> leasehold::Result<Option<Self>> {
        let (lease, longest) = (Lease::RENEWED, args.wait.unwrap_or(Duration::MAX));
        let wait = if args.no_wait || waits_for_itself(args) {
            Duration::ZERO
        } else {
            longest
        };
        let lock: Box<dyn Lock> = match (clients, args.kind) {
            ([client], Kind::Lock(kind)) if !redis.redlock => {
                let kind = if args.fenced { "fenced" } else { kind };
                lock_of_kind(client, kind, &args.key)?
            }
            ([client], Kind::Permits(permits)) => {
                let semaphore = client.leased_semaphore(&args.key);
                if !semaphore.try_set_permits(permits)? {
                    check_permits(&semaphore, permits);
                }
                let guard = semaphore.try_acquire_interruptibly(wait, lease, interrupt)?;
                return Ok(guard.map(Self::Permit));
            }
            (clients, _) => Box::new(RedLock::new(clients, &args.key)),
        };
        let guard = lock.try_acquire_interruptibly(wait, lease, interrupt)?;
        Ok(guard.map(Self::Lock))
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self {
            Self::Lock(guard) => guard.fencing_token(),
            Self::Permit(_) => None,
        }
    }

    /// Releases it, a lock after `keep`. A permit is released at once. Fails if it was lost, unless
    /// that `is_reported`: another client may have run at the same time.
    pub(super) fn release(self, keep: Option<Duration>, is_reported: bool) -> Result<()> {
        let name = format!("{:?}", self.name());
        let released = match (self, keep) {
            (Self::Lock(guard), Some(keep)) => guard.unlock_after(keep),
            (Self::Lock(guard), None) => guard.unlock(),
            (Self::Permit(guard), _) => guard.release(),
        };
        match released {
            Ok(()) => step(format!("released lock {name}")),
            Err(error) if is_reported => step(Failure::from(error)),
            Err(error @ (Error::Lost { .. } | Error::NotHeld { .. })) => return Err(error.into()),
            Err(error) => say(Failure::from(error)),
        }
        Ok(())
    }
}

/// True if a command under this lock waits for the lock, without a limit. Of a semaphore with
/// several permits, other holders can release some.
fn waits_for_itself(args: &LockArgs) -> bool {
    let has_limit = args.no_wait || args.wait.is_some();
    let is_alone = !matches!(args.kind, Kind::Permits(2..));
    !has_limit && is_alone && is_outer(&args.key)
}

/// The failure if another client holds the lock until the end of the wait. Names its holder if
/// Redis tells it in one attempt.
fn refused(args: &LockArgs, clients: &[LockClient], waited: Duration) -> Failure {
    if waits_for_itself(args) {
        return Failure::usage(format!(
            "{OUTER_KEYS} says that this command runs under lock {:?}, so it would wait for itself; \
             leave out one leasehold run, or give this one a --wait",
            args.key
        ));
    }
    // On many machines all but one get the lock. The status reports that.
    if is_quiet() {
        return Failure::new(args.conflict_exit_code, "");
    }
    let owner = match find_holder(&args.key, clients) {
        // Not "held by": it may have left the lock in Redis, as `--at-least` does.
        Some(holder) => format!(" (owner: {holder})"),
        None => " (another client had it, or goes first)".into(),
    };
    let message = format!(
        "lock {:?} is not free after a wait of {waited:.1?}{owner}; try again later, or wait longer",
        args.key
    );
    Failure::new(args.conflict_exit_code, message)
}

/// Warns if the semaphore exists with another number of permits. Without a reply there is no
/// warning: the acquire reports that.
fn check_permits(semaphore: &LeasedSemaphore, wanted: u32) {
    if let Ok(permits) = semaphore.permits()
        && permits != i64::from(wanted)
    {
        let name = shown(semaphore.name());
        say(format!(
            "semaphore {name} has {permits} permits, not {wanted}: --kind permits={wanted} counts \
             only for a semaphore that does not exist yet; to change it: leasehold permits {name} \
             {wanted}"
        ));
    }
}
