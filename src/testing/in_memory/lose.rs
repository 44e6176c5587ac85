//! Takes a lock away from its holder.

use super::keyspace::{Keyspace, Value};
use crate::base::key::{Family, LockKey};

/// Takes away the lock with this key.
pub(super) type How = fn(&mut Keyspace, &LockKey);

/// The owner id of another process.
const OTHER: &str = "00000000-0000-0000-0000-000000000000:1";

const LEASE: i64 = 30_000;

pub(super) fn delete(keys: &mut Keyspace, lock: &LockKey) {
    keys.remove(lock.owners().as_bytes());
}

pub(super) fn take_over(keys: &mut Keyspace, lock: &LockKey) {
    let texts = |one: &str, other: &str| (one.as_bytes().to_vec(), other.as_bytes().to_vec());
    let fields = match lock.family() {
        Family::ReadWriteLock => {
            vec![
                texts("mode", "write"),
                texts(&format!("{OTHER}:write"), "1"),
            ]
        }
        Family::Lock | Family::FairLock => vec![texts(OTHER, "1")],
        Family::Semaphore | Family::CountDownLatch => return delete(keys, lock),
    };
    keys.set(lock.key().as_bytes(), Value::Hash(fields));
    keys.set_time_to_live(lock.key().as_bytes(), Some(LEASE));
}
