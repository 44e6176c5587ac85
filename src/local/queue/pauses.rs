//! How the threads of this client leave a lock to other clients, and what is known of those.

use super::{Claim, LocalQueue, LockId, Locks};
use crate::base::Moment;
use crate::local::yields::Pause;

impl Claim {
    /// How the thread leaves the lock to other clients before its first request; `None` if it
    /// requests it at once.
    pub(crate) fn take_pause(&self) -> Option<Pause> {
        let now = Moment::now();
        self.queue.change(|locks| {
            let entry = locks.entries.get_mut(&self.lock)?;
            let pause = entry.yields.as_mut()?.take_pause(now)?;
            // No request is under way during the pause.
            locks.on_reply(self);
            Some(pause)
        })
    }

    /// True if [`take_pause`](Self::take_pause) has one.
    pub(crate) fn has_pause(&self) -> bool {
        let pause = |locks: &Locks| locks.entries.get(&self.lock)?.yields.as_ref()?.pause;
        self.queue.read(pause).is_some()
    }

    /// Records a hold of a client of another library, and its owner, if a refusal named it.
    pub(crate) fn note_passed(&self, owner: Option<&str>) {
        self.queue.change(|locks| {
            if let Some(entry) = locks.entries.get_mut(&self.lock) {
                entry.yields.get_or_insert_default().passed(owner);
            }
        });
    }
}

impl LocalQueue {
    /// Records that permits without a hold came free, and whether a client in the line was called.
    /// Then the next requests of this client would be refused without a place.
    pub(crate) fn added_permits(&self, lock: &LockId, is_called: bool) {
        self.change(|locks| {
            if is_called || locks.entries.contains_key(lock) {
                let entry = locks.entries.entry(lock.clone()).or_default();
                entry.yields.get_or_insert_default().is_contended = is_called;
                locks.forget_unused(lock);
                locks.sweep();
            }
        });
    }
}
