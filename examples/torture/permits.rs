//! What the conductor does with semaphores: it sets their permits, takes all of them from their
//! holders, and counts them after the run.

use leasehold::{LeasedSemaphore, LockClient};
use redis::{Cmd, cmd};

use crate::Result;
use crate::args::Args;
use crate::server::Server;

/// Makes the semaphores.
pub fn set(server: &Server, locks: u32, permits: u32) -> Result<()> {
    for lock in 0..locks {
        semaphore(server, lock)?.set_permits(permits)?;
    }
    Ok(())
}

/// Makes all permits available, as if their holders had released them. The number of permits that
/// were held, and no token.
pub fn take_all(lock: u32, permits: u32) -> Cmd {
    let script = "redis.call('set', KEYS[1], ARGV[1])
        return { redis.call('del', KEYS[2]), false }";
    let key = Args::key(lock);
    let mut take = cmd("EVAL");
    take.arg(script).arg(2);
    take.arg(&key)
        .arg(format!("{{{key}}}:timeout"))
        .arg(permits);
    take
}

/// Describes a semaphore if not all of its permits are available.
pub fn missing(server: &Server, lock: u32, permits: u32) -> Result<Option<String>> {
    let available = semaphore(server, lock)?.available()?;
    let is_missing = available != i64::from(permits);
    Ok(is_missing.then(|| format!("with {available} of {permits} permits available")))
}

fn semaphore(server: &Server, lock: u32) -> Result<LeasedSemaphore> {
    let client = LockClient::connect(&format!("redis://{}", server.address()))?;
    Ok(client.leased_semaphore(&Args::key(lock)))
}
