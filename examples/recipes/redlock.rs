//! From rslock, redsync or another Redlock.

use std::time::Duration;

use leasehold::{Lease, LockGuard, RedLock, Result};

/// The old programs: `lock(name, 10 s)`, with 3 attempts 200 ms apart, `extend`, `unlock`.
const WAIT: Duration = Duration::from_millis(600);
const TTL: Duration = Duration::from_secs(10);

/// Runs both parts of the work, and extends the lock between them. Returns false if it was held.
pub fn in_two_parts(
    lock: &RedLock,
    first: impl FnOnce(&LockGuard) -> Result<()>,
    second: impl FnOnce(&LockGuard) -> Result<()>,
) -> Result<bool> {
    // `Lease::RENEWED` needs no `extend`.
    let Some(guard) = lock.try_acquire(WAIT, Lease::fixed(TTL))? else {
        return Ok(false);
    };
    first(&guard)?; // an error drops the guard, which unlocks
    guard.extend(TTL)?;
    second(&guard)?;
    guard.unlock()?; // an error if the lock was lost meanwhile
    Ok(true)
}

#[test]
fn a_majority_is_enough_and_an_extended_lock_lasts() -> Result<()> {
    use leasehold::testing::InMemoryRedis;

    let servers = [(); 3].map(|()| InMemoryRedis::start().unwrap());
    servers[0].set_available(false);
    let lock = || {
        let clients = servers.each_ref().map(|server| server.client().unwrap());
        RedLock::new(&clients, "order:pay")
    };
    let (lock, other) = (lock(), lock());
    let most_of_it = |guard: &LockGuard| {
        servers
            .iter()
            .for_each(|server| server.advance(TTL * 3 / 4));
        guard.check()
    };
    let held = in_two_parts(&lock, most_of_it, |guard| {
        most_of_it(guard)?;
        assert!(!in_two_parts(&other, |_| Ok(()), |_| Ok(()))?);
        Ok(())
    });
    assert!(held?);
    assert!(in_two_parts(&other, |_| Ok(()), |_| Ok(()))?);
    Ok(())
}
