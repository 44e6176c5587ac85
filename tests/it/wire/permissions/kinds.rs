//! Fair locks, read-write locks and semaphores with leases, for the tests of permissions.

use leasehold::Result;

use crate::support::prelude::*;

/// Two clients wait for each other, once for each kind.
pub fn use_other_kinds(clients: &[LockClient; 2]) -> Result<()> {
    let [ours, theirs] = clients;
    use_fair_lock(ours, theirs)?;
    use_read_write_lock(ours, theirs)?;
    use_leased_semaphore(ours, theirs)
}

/// A place in the queue is given up, and another one leads to the lock.
fn use_fair_lock(ours: &LockClient, theirs: &LockClient) -> Result<()> {
    let [ours, theirs] = [ours, theirs].map(|client| client.fair_lock("queued"));
    let guard = ours.acquire()?;
    assert!(!on_another_thread(
        || theirs.try_lock(millis(15), Lease::RENEWED)
    )?);
    while_another_waits(|| theirs.acquire()?.unlock(), || guard.unlock())
}

fn use_read_write_lock(ours: &LockClient, theirs: &LockClient) -> Result<()> {
    let guard = ours
        .read_write_lock("catalog")
        .read()
        .acquire_owned(Lease::RENEWED)?;
    theirs.adopt(&guard.into_token()?)?.unlock()?;
    let [ours, theirs] = [ours, theirs].map(|client| client.read_write_lock("catalog"));
    let reads = ours.read().acquire()?;
    theirs.read().acquire()?.unlock()?;
    while_another_waits(|| theirs.write().acquire()?.unlock(), || reads.unlock())?;
    let writes = ours.write().acquire()?;
    while_another_waits(|| theirs.read().acquire()?.unlock(), || writes.unlock())
}

fn use_leased_semaphore(ours: &LockClient, theirs: &LockClient) -> Result<()> {
    let adopter = theirs;
    let [ours, theirs] = [ours, theirs].map(|client| client.leased_semaphore("api"));
    ours.try_set_permits(1)?;
    adopter
        .adopt_permit(&ours.acquire()?.into_token()?)?
        .release()?;
    let permit = ours.acquire()?;
    assert_eq!(ours.available()?, 0);
    while_another_waits(|| theirs.acquire()?.release(), || permit.release())
}

/// Calls `then` when another thread has waited for a moment, or has failed.
pub fn while_another_waits(
    waits: impl FnOnce() -> Result<()> + Send,
    then: impl FnOnce() -> Result<()>,
) -> Result<()> {
    thread::scope(|scope| {
        let waiter = scope.spawn(waits);
        let start = Instant::now();
        while !waiter.is_finished() && start.elapsed() < millis(15) {
            thread::sleep(millis(5));
        }
        let done = then();
        waiter.join().expect("no panic").and(done)
    })
}
