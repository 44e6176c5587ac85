//! What is held: a lock, or a permit of a leased semaphore.

use std::time::Duration;

use crate::args::{Kind, LockArgs, RedisArgs};
use crate::name::shown;
use crate::reporter::Reporter;
use leasehold::admin::lock_of_kind;
use leasehold::crossbeam_channel::Receiver;
use leasehold::{
    Interrupt, Lease, LeasedSemaphore, Lock, LockClient, LockGuard, LostReason, PermitGuard,
    RedLock, Result,
};

/// The guard. Dropping it releases the lock or the permit.
#[derive(Debug)]
pub(super) enum Held {
    Lock(LockGuard),
    Permit(PermitGuard),
}

/// What both guards can do.
macro_rules! each {
    ($held:expr, $guard:ident => $call:expr) => {
        match $held {
            Held::Lock($guard) => $call,
            Held::Permit($guard) => $call,
        }
    };
}

/// Warns if the semaphore exists with another number of permits. Without a reply there is no
/// warning: the acquire reports that.
fn check_permits(semaphore: &LeasedSemaphore, wanted: u32, reporter: Reporter) {
    let Ok(permits) = semaphore.permits() else {
        return;
    };
    if permits != i64::from(wanted) {
        let name = shown(semaphore.name());
        reporter.warning(format!(
            "semaphore {name} has {permits} permits, not {wanted}: --kind permits={wanted} counts \
             only for a semaphore that does not exist yet; to change it: leasehold permits {name} \
             {wanted}"
        ));
    }
}

impl Held {
    /// Acquires what the arguments name; `None` if the wait ends first.
    pub(super) fn acquire(
        args: &LockArgs,
        redis: &RedisArgs,
        clients: &[LockClient],
        wait: Duration,
        interrupt: &Interrupt,
        reporter: Reporter,
    ) -> Result<Option<Self>> {
        let lease = Lease::RENEWED;
        let lock: Box<dyn Lock> = match clients {
            [client] if args.fenced => lock_of_kind(client, "fenced", &args.key)?,
            [client] if !redis.redlock => match args.kind {
                Kind::Lock(kind) => lock_of_kind(client, kind, &args.key)?,
                Kind::Permits(permits) => {
                    let semaphore = client.leased_semaphore(&args.key);
                    if !semaphore.try_set_permits(permits)? {
                        check_permits(&semaphore, permits, reporter);
                    }
                    let guard = semaphore.try_acquire_interruptibly(wait, lease, interrupt)?;
                    return Ok(guard.map(Self::Permit));
                }
            },
            clients => Box::new(RedLock::new(clients, &args.key)),
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

    pub(super) fn name(&self) -> &str {
        each!(self, guard => guard.name())
    }

    pub(super) fn check(&self) -> Result<()> {
        each!(self, guard => guard.check())
    }

    pub(super) fn lost(&self) -> &Receiver<LostReason> {
        each!(self, guard => guard.lost())
    }

    pub(super) fn remaining(&self) -> Duration {
        each!(self, guard => guard.remaining())
    }

    /// Asks Redis.
    pub(super) fn confirm(&self) -> Result<()> {
        each!(self, guard => guard.confirm())
    }

    /// Releases it, a lock after `keep`. A permit is released at once.
    pub(super) fn release(self, keep: Option<Duration>) -> Result<()> {
        match (self, keep) {
            (Self::Lock(guard), Some(keep)) => guard.unlock_after(keep),
            (Self::Lock(guard), None) => guard.unlock(),
            (Self::Permit(guard), _) => guard.release(),
        }
    }
}
