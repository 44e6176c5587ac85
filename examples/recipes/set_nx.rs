//! From a lock by `SET NX` to one of this crate, without a moment at which neither is held.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{LockGuard, ReentrantLock, Result};
use redis::{Cmd, Connection, ExistenceCheck::NX, RedisResult, SetExpiry, SetOptions};

const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end";

/// The lock of the old programs.
pub struct OldLock {
    pub redis: Connection,
    pub key: String,
    pub token: String,
}

impl OldLock {
    pub fn try_lock(&mut self) -> RedisResult<bool> {
        let expiry = SetExpiry::PX(30_000);
        let options = SetOptions::default()
            .conditional_set(NX)
            .with_expiration(expiry);
        let set: Option<String> =
            Cmd::set_options(&self.key, &self.token, options).query(&mut self.redis)?;
        Ok(set.is_some())
    }

    pub fn unlock(&mut self) -> RedisResult<()> {
        let mut eval = redis::cmd("EVAL");
        eval.arg(COMPARE_AND_DELETE).arg(1);
        eval.arg(&self.key).arg(&self.token).exec(&mut self.redis)
    }
}

/// Runs `work` under both locks, while old programs still run. Returns false if one of them is held
/// until `wait` is over. In the next version, `lock.try_acquire_for(wait)` alone remains.
pub fn under_both(
    lock: &ReentrantLock,
    old: &mut OldLock,
    wait: Duration,
    work: impl FnOnce(&LockGuard),
) -> Result<bool, Box<dyn std::error::Error>> {
    let end = Instant::now() + wait;
    let Some(guard) = lock.try_acquire_for(wait)? else {
        return Ok(false);
    };
    while !old.try_lock()? {
        if Instant::now() > end {
            return Ok(false); // the drop of the guard unlocks
        }
        thread::sleep(Duration::from_millis(100));
    }
    work(&guard);
    old.unlock()?;
    guard.unlock()?;
    Ok(true)
}

#[test]
fn old_and_new_programs_exclude_each_other() -> Result<(), Box<dyn std::error::Error>> {
    let server = crate::support::Server::find_or_start().map_err(|error| error.to_string())?;
    let key = format!("leasehold:set_nx:{}", uuid::Uuid::new_v4());
    let lock = leasehold::LockClient::connect(server.url())?.reentrant_lock(&format!("{key}:new"));
    let old = |token: &str| OldLock {
        redis: crate::support::connect(server.url()).unwrap(),
        key: key.clone(),
        token: token.to_owned(),
    };
    let (mut transition, mut old_program) = (old("transition"), old("old program"));

    assert!(old_program.try_lock()?);
    let refused = under_both(
        &lock,
        &mut transition,
        Duration::from_millis(1),
        |_| panic!(),
    );
    assert!(!refused?);
    assert!(!lock.is_locked()?);
    old_program.unlock()?;

    let done = under_both(&lock, &mut transition, Duration::from_secs(9), |guard| {
        guard.check().unwrap();
        assert!(!old_program.try_lock().unwrap());
    });
    assert!(done?);
    assert!(old_program.try_lock()?);
    old_program.unlock()?;
    Ok(())
}
