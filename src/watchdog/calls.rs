//! The calls of a client that may leave something to the watchdog.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Shared, Watchdog};
use crate::base::Active;

/// Counts the calls that may have something in Redis that the watchdog does not know, or may queue
/// an orphan. After a shutdown the thread ends only when there is none.
///
/// * A call that acquires [delays a shutdown](Watchdog::delay_shutdown), then checks whether the
///   client is shut down, and only then sends a request. The watchdog's thread reads the number
///   after the interrupt of the shutdown was raised. So either the call sends no request, or the
///   watchdog's thread sees the call.
/// * A thread that unlocks, or finds an idle grant that does not suit it, delays a shutdown before
///   it ends the grant. So the shutdown ends the grant, or the watchdog's thread sees the call.
/// * Either the last call sees the announcement and wakes the thread, or the thread sees that there
///   is no call.
///
/// For this the atomics are sequentially consistent. They share no cache line with what other
/// threads read, because every call writes here.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ActiveCalls {
    number: AtomicUsize,
    is_end_announced: AtomicBool,
}

impl ActiveCalls {
    /// Makes the last call wake the thread.
    pub(super) fn announce_end(&self) {
        self.is_end_announced.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.number.load(Ordering::SeqCst) == 0
    }
}

/// One call, until it is dropped.
#[derive(Debug)]
pub(crate) struct ActiveCall<'a> {
    shared: &'a Shared,
    _active: Active,
}

impl Watchdog {
    /// Makes a shutdown wait for a call, so that its orphans are released. The call then checks
    /// whether the client is shut down.
    pub(crate) fn delay_shutdown(&self) -> ActiveCall<'_> {
        let active = Active::by_call(&self.clock);
        self.shared.calls.number.fetch_add(1, Ordering::SeqCst);
        ActiveCall {
            shared: &self.shared,
            _active: active,
        }
    }
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let Shared {
            state,
            changed,
            calls,
            ..
        } = self.shared;
        let before = calls.number.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && calls.is_end_announced.load(Ordering::SeqCst) {
            // The thread sleeps, or has not looked yet, or looks just now. Then it has the mutex,
            // and without this lock it would begin to sleep after the signal.
            drop(state.lock());
            changed.notify_all();
        }
    }
}
