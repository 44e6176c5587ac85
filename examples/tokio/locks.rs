//! Calls of locks from tasks.

use std::sync::Arc;

use leasehold::{Interrupt, Lease, LeasedSemaphore, LockGuard, PermitGuard, ReentrantLock};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

use crate::support::Result;

/// Runs blocking work under the lock. One closure acquires and unlocks it, because the owner is the
/// thread that runs the closure.
pub async fn under_lock<T: Send + 'static>(
    lock: ReentrantLock,
    waits: Waits,
    work: impl FnOnce(&LockGuard) -> Result<T> + Send + 'static,
) -> Result<T> {
    let place = waits.place().await?;
    let cancel = Cancel::default();
    let interrupt = cancel.interrupt();
    let call = spawn_blocking(move || {
        let guard = lock.acquire_interruptibly(Lease::RENEWED, &interrupt)?;
        drop(place);
        let value = work(&guard)?;
        guard.unlock()?;
        Ok(value)
    });
    call.await?
}

/// Runs work under the lock that awaits something. A blocking thread runs it, and holds the lock.
pub async fn under_lock_async<T: Send + 'static>(
    lock: ReentrantLock,
    waits: Waits,
    work: impl AsyncFnOnce(&LockGuard) -> Result<T> + Send + 'static,
) -> Result<T> {
    let runtime = Handle::current();
    under_lock(lock, waits, move |guard| runtime.block_on(work(guard))).await
}

/// Raises an interrupt when the future that owns it is dropped: a blocking call cannot be aborted.
#[derive(Default)]
struct Cancel(Interrupt);

impl Cancel {
    fn interrupt(&self) -> Interrupt {
        self.0.clone()
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

/// A permit of a leased semaphore. It belongs to no thread, so a task can hold it.
pub struct Permit {
    guard: Option<PermitGuard>,
    runtime: Handle,
}

impl Permit {
    pub async fn acquire(semaphore: LeasedSemaphore, waits: Waits) -> Result<Self> {
        let runtime = Handle::current();
        let place = waits.place().await?;
        let cancel = Cancel::default();
        let interrupt = cancel.interrupt();
        let call = spawn_blocking(move || {
            let guard = semaphore.acquire_interruptibly(Lease::RENEWED, &interrupt);
            drop(place);
            guard
        });
        let guard = Some(call.await??);
        Ok(Self { guard, runtime })
    }

    pub fn check(&self) -> Result<()> {
        Ok(self.guard.as_ref().ok_or("it is released")?.check()?)
    }

    /// Releases the permit, and returns the result.
    pub async fn release(mut self) -> Result<()> {
        let guard = self.guard.take().ok_or("it is released")?;
        Ok(spawn_blocking(|| guard.release()).await??)
    }
}

/// Releases the permit on a blocking thread, because a release sends a request. Also called if the
/// task is cancelled.
impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            drop(self.runtime.spawn_blocking(|| drop(guard)));
        }
    }
}

/// Limits how many blocking threads wait for locks or permits. If all of them waited, none would be
/// left to release what they wait for.
#[derive(Clone)]
pub struct Waits {
    places: Arc<Semaphore>,
    number: u32,
}

impl Waits {
    pub fn new(number: u32) -> Self {
        Self {
            places: Arc::new(Semaphore::new(number as usize)),
            number,
        }
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit> {
        Ok(Arc::clone(&self.places).acquire_owned().await?)
    }

    /// Waits until no thread waits.
    pub async fn all(&self) -> Result<()> {
        drop(self.places.acquire_many(self.number).await?);
        Ok(())
    }
}
