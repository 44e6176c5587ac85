//! Ending the wait of another thread.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::parker::Waker;

/// Ends waits from outside: every [`lock_interruptibly`](crate::Lock::lock_interruptibly) that was
/// given a clone of it returns [`Error::Interrupted`](crate::Error::Interrupted).
///
/// Once raised it stays raised, so that an interrupt cannot fall between two calls; make a new one
/// for the next piece of work. Java's `Thread.interrupt`, without its hidden flag on the thread.
///
/// ```
/// let interrupt = leasehold::Interrupt::new();
/// let other_thread = interrupt.clone();
/// other_thread.interrupt();
/// assert!(interrupt.is_interrupted());
/// ```
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Mutex<State>>);

/// Its mutex protects: a waker that is registered before the flag is raised is woken by the raise.
#[derive(Default)]
struct State {
    raised: bool,
    wakers: Vec<Waker>,
}

impl Interrupt {
    /// An interrupt that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises it: ends all waits that hold a clone, now and later. Never blocks.
    pub fn interrupt(&self) {
        let wakers = {
            let mut state = self.0.lock();
            state.raised = true;
            std::mem::take(&mut state.wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// True once it was raised.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.lock().raised
    }

    /// Has `waker` woken by the raise, for as long as the answer lives.
    pub(crate) fn register(&self, waker: Waker) -> Registered {
        let mut state = self.0.lock();
        if state.raised {
            waker.wake();
        } else {
            state.wakers.push(waker.clone());
        }
        drop(state);
        Registered {
            interrupt: self.clone(),
            waker,
        }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt")
            .field("raised", &self.is_interrupted())
            .finish()
    }
}

#[derive(Debug)]
pub(crate) struct Registered {
    interrupt: Interrupt,
    waker: Waker,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut state = self.interrupt.0.lock();
        let place = state.wakers.iter().position(|w| w.same_as(&self.waker));
        let removed = place.map(|at| state.wakers.swap_remove(at));
        drop(state);
        drop(removed);
    }
}
