//! Support for `#[locked]`: the code that the attribute generates calls this module.

mod current;
mod default;
mod result;

use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

pub use current::{CurrentLock, current_lock};
pub use default::set_default_client;

use crate::base::clock::Moment;
use crate::client::LockClient;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lock::{FencedGuard, Lock, LockGuard};
use crate::observe::tell;
use current::Entered;
use result::LockedResult;

/// One call of a function with `#[locked]`. Only for the code that the attribute generates; not
/// part of the public API.
#[derive(Debug)]
pub struct Call {
    /// `None`: the default client.
    client: Option<LockClient>,
    name: String,
    lease: Lease,
    /// `None`: without a limit.
    wait: Option<Duration>,
    kind: Kind,
    ignores_loss: bool,
}

impl Call {
    /// A call with this key: default client, the client's lease, one attempt, a reentrant lock.
    #[must_use]
    pub fn new(key: &dyn Display) -> Self {
        Self {
            client: None,
            name: key.to_string(),
            lease: Lease::RENEWED,
            wait: Some(Duration::ZERO),
            kind: Kind::Reentrant,
            ignores_loss: false,
        }
    }

    /// Adds a prefix to the key, separated by `:`.
    #[must_use]
    pub fn prefix(mut self, prefix: &dyn Display) -> Self {
        self.name = format!("{prefix}:{}", self.name);
        self
    }

    /// Uses this client instead of the default one.
    #[must_use]
    pub fn client(mut self, client: &LockClient) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// Uses this lease.
    #[must_use]
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Waits up to `wait` for the lock.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Waits for the lock without a limit.
    #[must_use]
    pub fn wait_forever(mut self) -> Self {
        self.wait = None;
        self
    }

    /// Uses a fenced lock.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.kind = Kind::Fenced;
        self
    }

    /// Uses a fair lock.
    #[must_use]
    pub fn fair(mut self) -> Self {
        self.kind = Kind::Fair;
        self
    }

    /// Uses the read lock of a read-write lock.
    #[must_use]
    pub fn read(mut self) -> Self {
        self.kind = Kind::Read;
        self
    }

    /// Uses the write lock of a read-write lock.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.kind = Kind::Write;
        self
    }

    /// Only logs the loss of the lock and errors of its release.
    #[must_use]
    pub fn ignore_loss(mut self) -> Self {
        self.ignores_loss = true;
        self
    }

    /// Acquires the lock, runs `body`, and releases the lock.
    pub fn run<R: LockedResult>(self, body: impl FnOnce() -> R) -> R {
        let ignores_loss = self.ignores_loss;
        let guard = match self.acquire() {
            Ok(guard) => Rc::new(guard),
            Err(error) => return R::failed(error),
        };
        let result = {
            let _entered = Entered::new(&guard);
            body()
        };
        match release(guard) {
            Ok(()) => result,
            Err(error) if ignores_loss || result.is_err() => {
                tell(move || {
                    tracing::warn!(
                        %error,
                        "a locked function ran, but its lock was lost or could not be released"
                    );
                });
                result
            }
            Err(error) => R::failed(error),
        }
    }

    fn acquire(self) -> Result<AnyGuard> {
        let client = match &self.client {
            Some(client) => client,
            None => default::default_client(&self.name)?,
        };
        let start = Moment::now();
        let lock: Box<dyn Lock> = match self.kind {
            Kind::Reentrant => Box::new(client.reentrant_lock(&self.name)),
            Kind::Fair => Box::new(client.fair_lock(&self.name)),
            Kind::Read => Box::new(client.read_write_lock(&self.name).read()),
            Kind::Write => Box::new(client.read_write_lock(&self.name).write()),
            Kind::Fenced => {
                let lock = client.fenced_lock(&self.name);
                let guard = match self.wait {
                    Some(wait) => lock.try_acquire(wait, self.lease)?,
                    None => Some(lock.acquire_with(self.lease)?),
                };
                return self.acquired(start, guard.map(AnyGuard::Fenced));
            }
        };
        let guard = match self.wait {
            Some(wait) => lock.try_acquire(wait, self.lease)?,
            None => Some(lock.acquire_with(self.lease)?),
        };
        self.acquired(start, guard.map(AnyGuard::Plain))
    }

    fn acquired(self, start: Moment, acquired: Option<AnyGuard>) -> Result<AnyGuard> {
        acquired.ok_or_else(|| Error::HeldByAnother {
            lock: self.name,
            waited: Moment::now().since(start),
        })
    }
}

/// The kind of lock of one call.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Reentrant,
    Fenced,
    Fair,
    Read,
    Write,
}

/// The guard of one call.
#[derive(Debug)]
enum AnyGuard {
    Plain(LockGuard),
    Fenced(FencedGuard),
}

impl AnyGuard {
    fn lock(&self) -> &LockGuard {
        match self {
            Self::Plain(guard) => guard,
            Self::Fenced(guard) => guard,
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            Self::Plain(_) => None,
            Self::Fenced(guard) => Some(guard.fencing_token()),
        }
    }
}

/// Unlocks, and fails if the lock was lost before.
fn release(guard: Rc<AnyGuard>) -> Result<()> {
    // This is the only strong reference: `CurrentLock` has weak ones, and upgrades them on this
    // thread only within its methods.
    match Rc::try_unwrap(guard) {
        Ok(AnyGuard::Plain(guard)) => guard.unlock(),
        Ok(AnyGuard::Fenced(guard)) => guard.unlock(),
        // The last reference unlocks, and logs an error of the unlock.
        Err(guard) => guard.lock().check(),
    }
}
