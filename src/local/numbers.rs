//! What the threads of one client share about a number in Redis: the free permits of a semaphore,
//! or the count of a latch. No I/O.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::combiner::Combiner;
use super::wait_queue::WaitQueue;
use crate::base::key::LockKey;

/// What the threads of one client share about one number.
#[derive(Debug, Default)]
pub(crate) struct SharedNumber {
    /// The threads that wait until the number changes.
    pub(crate) waiting: WaitQueue,
    /// Other clients are known to wait: the last request was refused.
    pub(crate) is_contended: AtomicBool,
    /// The first requests of threads that take permits.
    pub(crate) takes: Combiner,
    pub(crate) releases: Combiner,
}

/// Key and channel: kinds with different channels are different numbers.
type Id = (Arc<str>, Arc<str>);

/// The numbers of one client for which there are handles.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Mutex<HashMap<Id, Weak<SharedNumber>>>);

impl Numbers {
    /// All handles of one number share the result.
    pub(crate) fn shared(&self, key: &LockKey) -> Arc<SharedNumber> {
        let mut known = self.0.lock();
        if known.len() == known.capacity() {
            known.retain(|_, shared| shared.strong_count() > 0);
            // So the next removal comes after as many further numbers.
            let live = known.len();
            known.reserve(live + 1);
        }
        let id = (Arc::clone(key.key()), Arc::clone(key.channel()));
        let entry = known.entry(id).or_default();
        entry.upgrade().unwrap_or_else(|| {
            let new = Arc::default();
            *entry = Arc::downgrade(&new);
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_one_number_share_it_and_numbers_without_handles_are_forgotten() {
        let numbers = Numbers::default();
        let shared = |name: &str| numbers.shared(&LockKey::new("", name));
        let one = shared("one");
        for number in 0..1000 {
            shared(&number.to_string());
        }
        assert!(Arc::ptr_eq(&one, &shared("one")));
        assert!(numbers.0.lock().len() < 10);
    }
}
