//! Lets one thread wake another. A wake-up before the sleep ends that sleep at once.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

/// Ends the current or the next sleep of one [`Parker`].
#[derive(Clone, Debug)]
pub(crate) struct Unparker(Sender<()>);

impl Unparker {
    pub(crate) fn unpark(&self) {
        // If the channel is full, a wake-up is already pending, and one is enough.
        let _ = self.0.try_send(());
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

/// The end that sleeps.
#[derive(Debug)]
pub(crate) struct Parker(Receiver<()>);

impl Parker {
    /// Sleeps for at most `timeout`. Returns true if an [`Unparker`] ended the sleep.
    pub(crate) fn sleep(&self, timeout: Duration) -> bool {
        self.0.recv_timeout(timeout).is_ok()
    }
}

/// Creates a parker and its unparker.
pub(crate) fn pair() -> (Unparker, Parker) {
    let (sender, receiver) = bounded(1);
    (Unparker(sender), Parker(receiver))
}
