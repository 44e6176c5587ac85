//! The public lock types and their guards.

mod condition;
mod debug;
mod fair;
mod fenced;
mod forward;
mod guard;
mod guard_core;
mod guard_methods;
mod latch;
mod leased_semaphore;
mod lock_trait;
mod methods;
mod multi;
mod owned_guard;
mod permit_guard;
mod permits_together;
mod read_write;
mod redlock;
mod reentrant;
mod run;
mod semaphore;
mod semaphore_guard;
#[cfg(test)]
mod tests;

pub use condition::Condition;
pub(crate) use debug::Short;
pub use fair::FairLock;
pub use fenced::{FencedGuard, FencedLock};
pub use guard::LockGuard;
pub use latch::CountDownLatch;
pub use leased_semaphore::LeasedSemaphore;
pub use lock_trait::Lock;
pub use multi::MultiLock;
pub use owned_guard::OwnedGuard;
pub use permit_guard::PermitGuard;
pub use read_write::{ReadLock, ReadWriteLock, WriteLock};
pub use redlock::RedLock;
pub use reentrant::ReentrantLock;
pub use run::RunError;
pub use semaphore::Semaphore;
pub use semaphore_guard::SemaphoreGuard;
