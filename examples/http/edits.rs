//! Edits of accounts. An edit takes several requests, and holds the lock of the user meanwhile.

use std::{
    collections::HashMap,
    env,
    io::{Write, stdin},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold::{Lease, LockClient, OwnedGuard, ReentrantLock};

use crate::{service::Failure, support::Result};

/// A user who does not come back keeps the lock no longer than that.
const LONGEST: Lease = Lease::fixed(Duration::from_secs(60));

/// The edits that this process serves: the lock and the lines of each user.
#[derive(Default)]
pub struct Edits(Mutex<HashMap<u32, (OwnedGuard, u32)>>);

type Response = std::result::Result<String, Failure>;

fn conflict(message: &str) -> Failure {
    Failure {
        status: 409,
        message: message.into(),
    }
}

impl Edits {
    fn edits(&self) -> MutexGuard<'_, HashMap<u32, (OwnedGuard, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, user: u32, lock: &ReentrantLock) -> Response {
        let guard = lock.try_acquire_owned(Duration::ZERO, LONGEST)?;
        let guard = guard.ok_or_else(|| conflict("the account is in use"))?;
        self.edits().insert(user, (guard, 0));
        Ok("the edit has begun".into())
    }

    pub fn add(&self, user: u32) -> Response {
        let mut edits = self.edits();
        let edit = edits.get_mut(&user);
        let (guard, lines) = edit.ok_or_else(|| conflict("there is no edit"))?;
        guard.check()?;
        *lines += 1;
        Ok(format!("the edit has {lines} lines"))
    }

    /// Returns the token of the lock. A real service sends it to the queue of its workers.
    pub fn submit(&self, user: u32) -> Response {
        let edit = self.edits().remove(&user);
        let (guard, _) = edit.ok_or_else(|| conflict("there is no edit"))?;
        Ok(guard.into_token()?)
    }
}

/// Starts a worker process, and waits for its end.
pub fn run_worker(redis: &str, token: &str) -> Result<()> {
    let mut worker = Command::new(env::current_exe()?)
        .arg("--worker")
        .env("REDIS_URL", redis)
        .stdin(Stdio::piped())
        .spawn()?;
    // Not an argument, which other users of the machine can read.
    let mut input = worker.stdin.take().ok_or("the worker has no input")?;
    writeln!(input, "{token}")?;
    let ended = worker.wait()?;
    ended
        .success()
        .then_some(())
        .ok_or_else(|| "the worker failed".into())
}

/// Takes the lock over by its token, works, and unlocks.
pub fn work(locks: &LockClient) -> Result<()> {
    let mut token = String::new();
    stdin().read_line(&mut token)?;
    let guard = locks.adopt(token.trim())?;
    guard.check()?;
    println!(
        "process {} ends the edit under {}",
        std::process::id(),
        guard.name()
    );
    Ok(guard.unlock()?)
}
