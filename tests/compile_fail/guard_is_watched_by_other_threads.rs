//! The twin of `guard_is_not_send`: other threads may look at a guard, and listen for its loss.

use leasehold::{Lock, LockClient};

fn main() {
    // Port 1: nobody is there, and nothing is asked.
    let client = LockClient::connect("redis://127.0.0.1:1").unwrap();
    let lock = client.reentrant_lock("lock");
    let Ok(Some(guard)) = lock.try_acquire(std::time::Duration::ZERO, leasehold::Lease::RENEWED)
    else {
        return;
    };
    let lost = guard.lost().clone();
    std::thread::spawn(move || drop(lost));
    std::thread::scope(|scope| {
        scope.spawn(|| guard.check());
    });
    drop(guard);
}
