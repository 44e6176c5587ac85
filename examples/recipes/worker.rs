//! A lock that a service gives to a worker process.

use std::error::Error;
use std::io::{Write, read_to_string, stdin};
use std::process::{Child, Command, Stdio};

use leasehold::{LockClient, OwnedGuard};

/// Starts `worker`, and gives it the lock.
pub fn give(guard: OwnedGuard, worker: &mut Command) -> Result<Child, Box<dyn Error>> {
    let mut child = worker.stdin(Stdio::piped()).spawn()?; // an error drops the guard
    let token = guard.into_token()?;
    let mut input = child.stdin.take().ok_or("no standard input")?;
    input.write_all(token.as_bytes())?; // its drop ends the input of the worker
    Ok(child)
}

/// In the worker: takes the lock over, works, and unlocks.
pub fn work(
    client: &LockClient,
    job: impl FnOnce(&OwnedGuard) -> leasehold::Result<()>,
) -> Result<(), Box<dyn Error>> {
    let guard = client.adopt(read_to_string(stdin())?.trim())?;
    job(&guard)?; // an error drops the guard, which unlocks
    Ok(guard.unlock()?)
}

#[cfg(test)]
const URL: &str = "RECIPE_WORKER_URL";

/// The worker process of the test below, which runs this test alone.
#[test]
fn as_a_worker() -> Result<(), Box<dyn Error>> {
    let Ok(url) = std::env::var(URL) else {
        return Ok(());
    };
    work(&LockClient::connect(&url)?, OwnedGuard::confirm)
}

#[test]
fn a_worker_process_takes_the_lock_over() -> Result<(), Box<dyn Error>> {
    let redis = leasehold::testing::InMemoryRedis::start()?;
    let lock = redis.client()?.reentrant_lock("order:42");
    let guard = lock.acquire_owned(leasehold::Lease::RENEWED)?;
    let mut worker = Command::new(std::env::current_exe()?);
    worker.args(["--exact", "worker::as_a_worker"]);
    let mut child = give(guard, worker.env(URL, redis.url()).stdout(Stdio::null()))?;
    assert!(child.wait()?.success());
    assert!(!lock.is_locked()?);
    Ok(())
}
