//! Locks around functions: what `#[locked]` writes a call of.

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
use crate::lock::{FencedGuard, LockGuard};
use crate::observe::tell;
use current::Entered;
use result::LockedResult;

/// One call of a function with `#[locked]`, as the attribute writes it. Not for use by hand: it changes with the
/// attribute, which is always of the same version.
#[derive(Debug)]
pub struct Call {
    /// `None`: the default.
    client: Option<LockClient>,
    name: String,
    lease: Lease,
    /// `None`: for ever.
    wait: Option<Duration>,
    fenced: bool,
    ignores_loss: bool,
}

impl Call {
    /// Of a function with this key, with the client's lease, at once or not at all.
    #[must_use]
    pub fn new(key: &dyn Display) -> Self {
        Self {
            client: None,
            name: key.to_string(),
            lease: Lease::RENEWED,
            wait: Some(Duration::ZERO),
            fenced: false,
            ignores_loss: false,
        }
    }

    /// What stands before the key.
    #[must_use]
    pub fn prefix(mut self, prefix: &dyn Display) -> Self {
        self.name = format!("{prefix}:{}", self.name);
        self
    }

    /// By another client than the default.
    #[must_use]
    pub fn client(mut self, client: &LockClient) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// With this lease.
    #[must_use]
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Waits for the lock so long.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Waits for the lock until it is there.
    #[must_use]
    pub fn wait_forever(mut self) -> Self {
        self.wait = None;
        self
    }

    /// With a fencing token.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// A loss is logged, and otherwise of no matter.
    #[must_use]
    pub fn ignore_loss(mut self) -> Self {
        self.ignores_loss = true;
        self
    }

    /// Runs `body` while the lock is held.
    pub fn run<R: LockedResult>(self, body: impl FnOnce() -> R) -> R {
        let ignores_loss = self.ignores_loss;
        let held = match self.take() {
            Ok(guard) => Rc::new(guard),
            Err(error) => return R::failed(error),
        };
        let outcome = {
            let _entered = Entered::new(&held);
            body()
        };
        match give_back(held) {
            Ok(()) => outcome,
            Err(error) if ignores_loss || outcome.is_failure() => {
                tell(move || {
                    tracing::warn!(%error, "a locked function ran, but its lock did not last or could not be given back");
                });
                outcome
            }
            Err(error) => R::failed(error),
        }
    }

    fn take(self) -> Result<AnyGuard> {
        let client = match &self.client {
            Some(client) => client,
            None => default::default_client(&self.name)?,
        };
        let start = Moment::now();
        let taken = if self.fenced {
            let lock = client.fenced_lock(&self.name);
            match self.wait {
                Some(wait) => lock.try_acquire(wait, self.lease)?.map(AnyGuard::Fenced),
                None => Some(AnyGuard::Fenced(lock.acquire_with(self.lease)?)),
            }
        } else {
            let lock = client.reentrant_lock(&self.name);
            match self.wait {
                Some(wait) => lock.try_acquire(wait, self.lease)?.map(AnyGuard::Plain),
                None => Some(AnyGuard::Plain(lock.acquire_with(self.lease)?)),
            }
        };
        taken.ok_or_else(|| Error::HeldByAnother {
            lock: self.name,
            waited: Moment::now().since(start),
        })
    }
}

/// The lock around one call.
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

/// Unlocks, which fails, too, if the lock did not last until here.
fn give_back(held: Rc<AnyGuard>) -> Result<()> {
    // The others are weak, and none is in use: this is the thread of all of them.
    match Rc::into_inner(held) {
        Some(AnyGuard::Plain(guard)) => guard.unlock(),
        Some(AnyGuard::Fenced(guard)) => guard.unlock(),
        None => Ok(()),
    }
}
