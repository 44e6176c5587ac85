//! Support for `#[locked]`: the code that the attribute generates calls this module.

mod current;
mod default;
mod result;

use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

pub use current::{CurrentLock, current_lock};
pub use default::set_default_client;
#[cfg(feature = "testing")]
pub use default::with_default_client;

use crate::base::Moment;
use crate::client::{LockClient, lock_of_kind};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lock::LockGuard;
use crate::observe::tell;
use current::CurrentCall;
use result::LockedResult;

/// One call of a function with `#[locked]`. Only for the code that the attribute generates, which
/// sets the fields; not part of the public API.
#[derive(Debug)]
pub struct LockedCall {
    /// `None`: the default client.
    pub client: Option<LockClient>,
    /// One, or those of a lock of several.
    pub names: Vec<String>,
    /// The lease of each acquire.
    pub lease: Lease,
    /// How long to wait while others hold the lock.
    pub wait: Duration,
    /// One of the kinds of [`lock_of_kind`].
    pub kind: &'static str,
    /// The number of permits of a leased semaphore, which is used in place of a lock.
    pub permits: Option<u32>,
    /// For how long the lock is kept since it was acquired.
    pub at_least: Duration,
    /// With `ignore`, the loss of the lock and errors of its release are only logged.
    pub on_loss: &'static str,
}

impl LockedCall {
    /// A call with these keys and the defaults of all other arguments.
    pub fn new(keys: &[&dyn Display], lease: Lease) -> Self {
        Self {
            client: None,
            names: keys.iter().map(ToString::to_string).collect(),
            lease,
            wait: Duration::ZERO,
            kind: "reentrant",
            permits: None,
            at_least: Duration::ZERO,
            on_loss: "error",
        }
    }

    /// Adds a prefix to each key, separated by `:`.
    pub fn prefix(mut self, prefix: &dyn Display) -> Self {
        for name in &mut self.names {
            *name = format!("{prefix}:{name}");
        }
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
            let _entered = CurrentCall::new(&guard, self.at_least);
            body()
        };
        match release(guard) {
            Ok(()) => result,
            Err(error) if self.on_loss == "ignore" || result.is_err() => {
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
        let default = || default::default_client(&self.names.join(", "));
        let client = self.client.clone().map_or_else(default, Ok)?;
        let start = Moment::now();
        let (wait, lease) = (self.wait, self.lease);
        let guard = match (&*self.names, self.permits) {
            ([name], Some(permits)) => {
                let semaphore = client.leased_semaphore(name).with_permits(permits)?;
                let permit = semaphore.try_acquire(wait, lease)?;
                permit.map(LockGuard::of_permit)
            }
            ([name], None) => lock_of_kind(&client, self.kind, name)?.try_acquire(wait, lease)?,
            (names, _) => client.multi_lock(names).try_acquire(wait, lease)?,
        };
        guard.ok_or_else(|| Error::HeldByAnother {
            lock: self.names.join(", "),
            waited: Moment::now().since(start),
            // One request more. The process of the owner is not looked up: Redis would list all its
            // connections for each refused call.
            owner: match (&*self.names, self.permits) {
                ([name], None) => client.inspect(name).ok().and_then(|status| status.owner),
                _ => None,
            },
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
