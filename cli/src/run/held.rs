//! What is held: a lock, or a permit of a leased semaphore. How it is acquired and released.

use std::time::Duration;

use super::job::signalled;
use super::signals::Signals;
use super::waiting_line::WaitingLine;
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
    confirm -> leasehold::Result<()>,
    lost -> Subscription<LostReason>,
    remaining -> Duration,
}

/// Checks what clap does not.
pub(super) fn check(args: &LockArgs, redis: &RedisArgs) -> Result<()> {
    if args.fenced && redis.redlock {
        return Err(Failure::usage(
            "--fenced does not work with --redlock: independent servers count separately",
        ));
    }
    if args.kind != Kind::REENTRANT && redis.redlock {
        return Err(Failure::usage(
            "--kind does not work with --redlock: only a reentrant lock exists on several servers",
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
        let line = WaitingLine::start(args, &clients);
        let acquired = Self::try_acquire(args, redis, &clients, &signals.interrupt);
        // A lock that was acquired does not wait for a request of the line's thread. Otherwise the
        // thread is joined: it has clients, which clean up when they end.
        line.end(!matches!(acquired, Ok(Some(_))));
        if let Some(signal) = signals.ended_the_wait() {
            step(format!("signal {signal} ended the wait"));
            // The lock may have been acquired at the last moment. Its guard releases it.
            drop(acquired);
            return Err(Failure::new(signalled(signal), ""));
        }
        let Some(held) = acquired? else {
            let lock = args.key.clone();
            let waited = Moment::now().since(asked);
            // On many machines all but one get the lock. The status reports that.
            let message = match is_quiet() {
                true => String::new(),
                false => Error::HeldByAnother { lock, waited }.to_string(),
            };
            return Err(Failure::new(args.conflict_exit_code, message));
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
        let wait = if args.no_wait {
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
