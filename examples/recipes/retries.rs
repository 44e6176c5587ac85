//! Retries that do no work twice.

use std::thread;
use std::time::Duration;

use leasehold::{Lease, LockGuard, ReentrantLock, RunError};

/// Runs `work` once. Makes a pause, and tries again, as long as it has not run.
pub fn run_with_retries<T, E>(
    lock: &ReentrantLock,
    pauses: impl IntoIterator<Item = Duration>,
    work: impl Fn(&LockGuard) -> Result<T, E>,
) -> Result<T, RunError<E, T>> {
    for pause in pauses {
        match lock.run(Lease::RENEWED, &work) {
            Err(RunError::NotRun(error)) if error.is_transient() => thread::sleep(pause),
            result => return result,
        }
    }
    lock.run(Lease::RENEWED, &work)
}

/// Eight pauses, from a tenth of a second to 12.8 s.
pub fn pauses() -> impl Iterator<Item = Duration> {
    (0..8).map(|exponent| Duration::from_millis(100 << exponent))
}

#[test]
fn what_has_not_run_is_repeated_and_nothing_else() -> leasehold::Result<()> {
    use leasehold::testing::InMemoryRedis;
    use std::cell::Cell;

    let redis = InMemoryRedis::start()?;
    let client = redis
        .builder()
        .command_timeout(Duration::from_millis(100))
        .give_up_after(Duration::from_millis(100))
        .build()?;
    let lock = client.reentrant_lock("order:pay");
    let paid = Cell::new(0);
    let pay = |guard: &LockGuard| {
        paid.set(paid.get() + 1);
        guard.confirm()
    };

    redis.set_available(false);
    let until_available = (1..=2).map(|attempt| {
        redis.set_available(attempt == 2);
        Duration::from_millis(1)
    });
    assert!(run_with_retries(&lock, until_available, pay).is_ok());
    assert_eq!(paid.get(), 1);

    // The error of the work is transient, too: nevertheless it is not repeated.
    let result = run_with_retries(&lock, pauses(), |guard| {
        redis.set_available(false);
        pay(guard)
    });
    assert!(
        matches!(result, Err(RunError::Unlock { result: Err(error), .. }) if error.is_transient())
    );
    assert_eq!(paid.get(), 2);
    Ok(())
}
