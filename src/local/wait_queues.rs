//! The queue of each number for which a client has handles. No I/O.

use std::sync::{Arc, Weak};

use foldhash::HashMap;
use parking_lot::Mutex;

use super::wait_queue::WaitQueue;
use crate::base::key::LockKey;

/// The queues of one client for which there are handles.
#[derive(Debug, Default)]
pub(crate) struct WaitQueues(Mutex<HashMap<Id, Weak<WaitQueue>>>);

/// Key and channel: kinds with different channels have queues of their own.
type Id = (Arc<str>, Arc<str>);

impl WaitQueues {
    /// All handles of one number share the result.
    pub(crate) fn queue(&self, key: &LockKey) -> Arc<WaitQueue> {
        let mut known = self.0.lock();
        if known.len() == known.capacity() {
            known.retain(|_, queue| queue.strong_count() > 0);
            // So the next removal comes after as many further numbers.
            let live = known.len();
            known.reserve(live + 1);
        }
        let id = (Arc::clone(key.key()), Arc::clone(key.channel()));
        let known = known.entry(id).or_default();
        known.upgrade().unwrap_or_else(|| {
            let queue = Arc::default();
            *known = Arc::downgrade(&queue);
            queue
        })
    }

    /// True if threads wait for this number.
    pub(crate) fn is_used(&self, key: &LockKey) -> bool {
        let id = (Arc::clone(key.key()), Arc::clone(key.channel()));
        let queue = self.0.lock().get(&id).and_then(Weak::upgrade);
        queue.is_some_and(|queue| queue.is_used())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_one_number_share_its_queue_and_queues_without_handles_are_forgotten() {
        let queues = WaitQueues::default();
        let queue = |name: &str| queues.queue(&LockKey::new("", name));
        let one = queue("one");
        for number in 0..1000 {
            queue(&number.to_string());
        }
        assert!(Arc::ptr_eq(&one, &queue("one")));
        assert!(queues.0.lock().len() < 10);
    }
}
