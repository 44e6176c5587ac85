//! Calls that are refused and change nothing.

use super::Stage;
use crate::support::prelude::*;

pub fn a_key_of_another_type_is_not_changed(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    stage.run_command(redis::cmd("SET").arg(stage.key()).arg("mine"));
    let mut results = every_call(&*lock);
    results.extend([
        ("inspect", client.inspect(stage.name()).map(drop)),
        ("force_unlock", client.force_unlock(stage.name()).map(drop)),
    ]);
    for (call, result) in results {
        let is_expected =
            matches!(&result, Err(Error::WrongType { lock, .. }) if lock == stage.name());
        assert!(is_expected, "{call}: {result:?}");
    }
    assert_matches!(lock.unlock(), Err(Error::NotHeld { .. }));
    let (kept, lives): (String, i64) = redis::pipe()
        .cmd("GET")
        .arg(stage.key())
        .cmd("PTTL")
        .arg(stage.key())
        .query(&mut stage.redis())
        .unwrap();
    assert_eq!((kept.as_str(), lives), ("mine", -1));
}

/// The call fails before anything is sent.
pub fn a_lease_outside_its_bounds_is_refused(stage: &Stage) {
    let lock = stage.lock();
    for bad in [
        Duration::ZERO,
        Duration::from_nanos(999_999),
        Duration::from_millis((1 << 53) + 1),
        Duration::MAX,
    ] {
        for (call, result) in every_acquire(&*lock, Lease::fixed(bad)) {
            println!("{call} for {bad:?}");
            assert_invalid(&result, "lease", lock.name());
        }
        let guard = lock.acquire().unwrap();
        assert_invalid(&guard.extend(bad), "duration", lock.name());
        guard.unlock().unwrap();
    }
    assert_eq!(stage.count(), 0);
}
