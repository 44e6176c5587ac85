//! Notifies a holder that its lock was lost.

use std::sync::{Arc, OnceLock};

use crate::base::{Publisher, Subscription};
use crate::error::LostReason;

/// Sends at most one message to each subscription. The source is made for the first one: most holds
/// have none.
///
/// It ends with the message, or with the hold. A receiver then sees that its channel is
/// disconnected, so it never blocks indefinitely.
#[derive(Debug, Default)]
pub(crate) struct LossNotifier(OnceLock<Arc<Publisher<LostReason>>>);

impl LossNotifier {
    /// A channel that gets the message. `lost` tells whether the hold is lost already: if so, the
    /// message is sent now, because a loss before the first subscription sent none.
    pub(crate) fn subscribe(
        &self,
        lost: impl FnOnce() -> Option<LostReason>,
    ) -> Subscription<LostReason> {
        let source = self.0.get_or_init(Arc::default);
        // Checked after the source exists: a loss from here on sends its message itself.
        if let Some(reason) = lost() {
            self.notify(reason);
        }
        source.subscribe()
    }

    pub(crate) fn notify(&self, reason: LostReason) {
        if let Some(source) = self.0.get() {
            source.end(Some(reason));
        }
    }
}

impl Drop for LossNotifier {
    fn drop(&mut self) {
        if let Some(source) = self.0.get() {
            source.end(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_notifies_each_subscription_once_before_or_after_the_loss() {
        for early in [true, false] {
            let loss_notifier = LossNotifier::default();
            let earlier = early.then(|| loss_notifier.subscribe(|| None));
            loss_notifier.notify(LostReason::Deleted);
            let later = loss_notifier.subscribe(|| Some(LostReason::Deleted));
            for receiver in earlier.into_iter().chain([later]) {
                assert_eq!(receiver.try_recv(), Ok(LostReason::Deleted));
                assert!(receiver.recv().is_err(), "disconnected after one message");
            }
        }
    }

    #[test]
    fn the_channel_is_disconnected_when_the_notifier_is_dropped() {
        let loss_notifier = LossNotifier::default();
        let receiver = loss_notifier.subscribe(|| None);
        drop(loss_notifier);
        assert!(receiver.recv().is_err());
    }
}
