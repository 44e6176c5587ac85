//! Ending the wait of another thread.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::parker::Unparker;

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

/// Its mutex protects: a unparker that is registered before the flag is raised is woken by the raise.
#[derive(Default)]
struct State {
    raised: bool,
    unparkers: Vec<Unparker>,
}

impl Interrupt {
    /// An interrupt that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises it: ends all waits that hold a clone, now and later. Never blocks.
    pub fn interrupt(&self) {
        let unparkers = {
            let mut state = self.0.lock();
            state.raised = true;
            std::mem::take(&mut state.unparkers)
        };
        for unparker in unparkers {
            unparker.unpark();
        }
    }

    /// True once it was raised.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.lock().raised
    }

    /// Has `unparker` woken by the raise, for as long as the answer lives.
    pub(crate) fn register(&self, unparker: Unparker) -> Registered {
        let mut state = self.0.lock();
        if state.raised {
            unparker.unpark();
        } else {
            state.unparkers.push(unparker.clone());
        }
        drop(state);
        Registered {
            interrupt: self.clone(),
            unparker,
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
    unparker: Unparker,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut state = self.interrupt.0.lock();
        let place = state
            .unparkers
            .iter()
            .position(|w| w.same_as(&self.unparker));
        let removed = place.map(|at| state.unparkers.swap_remove(at));
        drop(state);
        drop(removed);
    }
}
