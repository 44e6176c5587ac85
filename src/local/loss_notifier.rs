//! Notifies a holder that its lock was lost.

use std::sync::{LazyLock, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use parking_lot::Mutex;

use crate::base::process::Process;
use crate::error::LostReason;

/// Sends at most one message. The channel is made for the first subscriber: most holds have none.
#[derive(Debug, Default)]
pub(super) struct LossNotifier(OnceLock<Box<Channel>>);

/// The sender is dropped after the message, or with the hold. A receiver then sees that the channel
/// is disconnected, so it never blocks indefinitely.
#[derive(Debug)]
struct Channel {
    sender: Mutex<Option<Sender<LostReason>>>,
    receiver: Receiver<LostReason>,
    process: Process,
}

/// The channel of a hold in a forked child, where the mutexes of the other channel may stay locked.
/// It never gets a message.
pub(super) static OF_CHILD: LazyLock<Receiver<LostReason>> = LazyLock::new(never);

impl LossNotifier {
    /// The channel that gets the message. `lost` tells whether the hold is lost already: if so, the
    /// message is sent now, because a loss before the first subscription sent none.
    pub(super) fn subscribe(
        &self,
        lost: impl FnOnce() -> Option<LostReason>,
    ) -> &Receiver<LostReason> {
        let channel = self.0.get_or_init(|| {
            let (sender, receiver) = bounded(1);
            Box::new(Channel {
                sender: Mutex::new(Some(sender)),
                receiver,
                process: Process::current(),
            })
        });
        // Checked after the channel exists: a loss from here on sends its message itself.
        if let Some(reason) = lost() {
            self.notify(reason);
        }
        &channel.receiver
    }

    pub(super) fn notify(&self, reason: LostReason) {
        let sender = self
            .0
            .get()
            .and_then(|channel| channel.sender.lock().take());
        if let Some(sender) = sender {
            // Never full: the channel has room for one message, and this is the only one.
            let _ = sender.try_send(reason);
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // A mutex in the channel may stay locked.
            std::mem::forget(self.sender.get_mut().take());
            std::mem::forget(std::mem::replace(&mut self.receiver, never()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_notifies_once_before_or_after_the_subscription() {
        for early in [true, false] {
            let loss_notifier = LossNotifier::default();
            if early {
                assert!(loss_notifier.subscribe(|| None).is_empty());
            }
            loss_notifier.notify(LostReason::Deleted);
            let receiver = loss_notifier.subscribe(|| Some(LostReason::Deleted));
            assert_eq!(receiver.try_recv(), Ok(LostReason::Deleted));
            assert!(receiver.recv().is_err(), "disconnected after one message");
        }
    }

    #[test]
    fn the_channel_is_disconnected_when_the_notifier_is_dropped() {
        let loss_notifier = LossNotifier::default();
        let receiver = loss_notifier.subscribe(|| None).clone();
        drop(loss_notifier);
        assert!(receiver.recv().is_err());
    }
}
