//! How one thread ends another's sleep. A wake-up that comes too early is kept, never lost.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

/// Ends the sleep of one [`Parker`], now or the next time it begins one.
#[derive(Clone, Debug)]
pub(crate) struct Unparker(Sender<()>);

impl Unparker {
    pub(crate) fn unpark(&self) {
        // Full means that a wake-up is waiting already, and one is as good as two.
        let _ = self.0.try_send(());
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

/// The sleeping end.
#[derive(Debug)]
pub(crate) struct Parker(Receiver<()>);

impl Parker {
    /// Sleeps for at most `timeout`; true if a [`Unparker`] ended it.
    pub(crate) fn sleep(&self, timeout: Duration) -> bool {
        self.0.recv_timeout(timeout).is_ok()
    }
}

pub(crate) fn pair() -> (Unparker, Parker) {
    let (sender, receiver) = bounded(1);
    (Unparker(sender), Parker(receiver))
}
