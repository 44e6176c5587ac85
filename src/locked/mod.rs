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
use crate::client::{LockClient, lock_of_kind};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lock::LockGuard;
use crate::observe::tell;
use current::CurrentCall;
use result::LockedResult;

/// One call of a function with `#[locked]`. Only for the code that the attribute generates; not
/// part of the public API.
#[derive(Debug)]
pub struct LockedCall {
    /// `None`: the default client.
    client: Option<LockClient>,
    name: String,
    lease: Lease,
    wait: Duration,
    /// One of the kinds of [`lock_of_kind`].
    kind: &'static str,
    ignores_loss: bool,
}

impl LockedCall {
    /// A call with this key and the default client. `kind` is one of those of
    /// [`lock_of_kind`](crate::admin::lock_of_kind). If it `ignores_loss`, it only logs the loss of
    /// the lock and errors of its release.
    pub fn new(
        key: &dyn Display,
        lease: Lease,
        wait: Duration,
        kind: &'static str,
        ignores_loss: bool,
    ) -> Self {
        Self {
            client: None,
            name: key.to_string(),
            lease,
            wait,
            kind,
            ignores_loss,
        }
    }

    /// Adds a prefix to the key, separated by `:`.
    pub fn prefix(mut self, prefix: &dyn Display) -> Self {
        self.name = format!("{prefix}:{}", self.name);
        self
    }

    /// Uses this client instead of the default one.
    pub fn client(mut self, client: &LockClient) -> Self {
        self.client = Some(client.clone());
        self
    }

    /// Acquires the lock, runs `body`, and releases the lock.
    pub fn run<R: LockedResult>(self, body: impl FnOnce() -> R) -> R {
        let guard = match self.acquire() {
            Ok(guard) => Rc::new(guard),
            Err(error) => return R::failed(error),
        };
        let result = {
            let _entered = CurrentCall::new(&guard);
            body()
        };
        match release(guard) {
            Ok(()) => result,
            Err(error) if self.ignores_loss || result.is_err() => {
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

    fn acquire(&self) -> Result<LockGuard> {
        let client = match &self.client {
            Some(client) => client,
            None => default::default_client(&self.name)?,
        };
        let start = Moment::now();
        let lock = lock_of_kind(client, self.kind, &self.name)?;
        let guard = lock.try_acquire(self.wait, self.lease)?;
        guard.ok_or_else(|| Error::HeldByAnother {
            lock: self.name.clone(),
            waited: Moment::now().since(start),
            // One request more. The process of the owner is not looked up: Redis would list all its
            // connections for each refused call.
            owner: client
                .inspect(&self.name)
                .ok()
                .and_then(|status| status.owner),
        })
    }
}

/// Unlocks, and fails if the lock was lost before.
fn release(guard: Rc<LockGuard>) -> Result<()> {
    // This is the only strong reference: `CurrentLock` has weak ones, and upgrades them on this
    // thread only within its methods.
    match Rc::try_unwrap(guard) {
        Ok(guard) => guard.unlock(),
        // The last reference unlocks, and logs an error of the unlock.
        Err(guard) => guard.check(),
    }
}
