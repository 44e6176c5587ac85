//! Counts the calls of a client that are under way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::base::clock::Moment;
use crate::base::wait::wait_until;

/// The calls under way that acquire or release locks in Redis. A thread waits for their end at most
/// once in the life of a client, so the calls lock no mutex before that.
///
/// A call checks whether the client is shut down after it has [begun](Self::begin). The atomics are
/// sequentially consistent, so either the call sees the shutdown, or the shutdown sees the call.
/// Likewise, either the last call sees that its end is awaited, or the waiting thread sees that
/// there is no call.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    calls: AtomicUsize,
    is_awaited: AtomicBool,
    mutex: Mutex<()>,
    ended: Condvar,
}

/// One call, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallUnderWay<'a>(&'a UnderWay);

impl UnderWay {
    pub(crate) fn begin(&self) -> CallUnderWay<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        CallUnderWay(self)
    }

    /// Waits until no call is under way, at most until this moment. True if there is none.
    pub(crate) fn wait_for_end(&self, until: Moment) -> bool {
        self.is_awaited.store(true, Ordering::SeqCst);
        let is_over = |(): &()| self.calls.load(Ordering::SeqCst) == 0;
        wait_until(&self.ended, &mut self.mutex.lock(), until, is_over)
    }
}

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        let before = self.0.calls.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.0.is_awaited.load(Ordering::SeqCst) {
            // The waiting thread sleeps or has not looked yet.
            drop(self.0.mutex.lock());
            self.0.ended.notify_all();
        }
    }
}
