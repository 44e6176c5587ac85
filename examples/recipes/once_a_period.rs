//! A job that runs at most once in a period, on all machines together.

use std::time::Duration;

use leasehold::{Lease, LockGuard, ReentrantLock, Result};

/// Runs `job`, unless it has begun in this period, here or on another machine. Returns whether it
/// has run.
pub fn once_a_period(
    lock: &ReentrantLock,
    period: Duration,
    job: impl FnOnce(&LockGuard) -> Result<()>,
) -> Result<bool> {
    // Fixed: it keeps the lock for the whole period, also if this process dies.
    let Some(guard) = lock.try_acquire(Duration::ZERO, Lease::fixed(period))? else {
        return Ok(false);
    };
    let result = job(&guard);
    // Also after an error, because the job may have done a part of its work.
    guard.unlock_at_least(period)?;
    result.map(|()| true)
}

#[test]
fn a_job_runs_once_in_a_period_also_if_it_hangs() -> Result<()> {
    use leasehold::testing::InMemoryRedis;

    const HOUR: Duration = Duration::from_secs(3600);
    let redis = InMemoryRedis::start()?;
    let [one, other] = [(); 2].map(|()| redis.client().unwrap().reentrant_lock("report"));

    assert!(once_a_period(&one, HOUR, |_| Ok(()))?);
    assert!(!once_a_period(&one, HOUR, |_| Ok(()))?);
    redis.advance(HOUR / 2);
    assert!(!once_a_period(&other, HOUR, |_| Ok(()))?);
    redis.advance(HOUR / 2);

    let hanging = once_a_period(&one, HOUR, |guard| {
        redis.advance(HOUR / 2);
        assert!(!once_a_period(&other, HOUR, |_| Ok(()))?);
        redis.advance(HOUR / 2);
        assert!(once_a_period(&other, HOUR, |_| Ok(()))?);
        guard.check()
    });
    assert!(matches!(hanging, Err(leasehold::Error::Lost { .. })));
    Ok(())
}
