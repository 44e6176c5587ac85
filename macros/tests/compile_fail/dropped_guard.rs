//! A guard that is dropped at once unlocks at once. After `?`, the compiler warns only about a
//! value whose own type says so: not about a `bool`, and not about an `Option` of a guard.

#![deny(unused_must_use)]

use leasehold::{FencedLock, LeasedSemaphore, ReentrantLock, Result};

fn work(lock: &ReentrantLock, fenced: &FencedLock, permits: &LeasedSemaphore) -> Result<()> {
    lock.acquire()?;
    fenced.acquire()?;
    permits.acquire()?;
    lock.try_acquire_now();
    Ok(())
}

fn main() {}
