//! How a holder hears that its lock is lost, without asking again and again.

use std::sync::OnceLock;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::error::LostReason;

/// Rings once. Made when somebody first listens: most holds end well and are never listened to.
#[derive(Debug, Default)]
pub(super) struct LossNotifier(OnceLock<Parts>);

/// The sender is dropped with the message, and with the hold, so that nobody listens for ever.
#[derive(Debug)]
struct Parts {
    sender: Mutex<Option<Sender<LostReason>>>,
    receiver: Receiver<LostReason>,
}

impl LossNotifier {
    /// Where the ring is heard. Whoever ends the hold before anybody listens rings in vain, so the
    /// listener who finds it lost rings for itself.
    pub(super) fn listen(
        &self,
        lost: impl FnOnce() -> Option<LostReason>,
    ) -> &Receiver<LostReason> {
        let parts = self.0.get_or_init(|| {
            let (sender, receiver) = bounded(1);
            Parts {
                sender: Mutex::new(Some(sender)),
                receiver,
            }
        });
        // Looked up only now: a loss from here on finds the loss_notifier.
        if let Some(reason) = lost() {
            self.ring(reason);
        }
        &parts.receiver
    }

    pub(super) fn ring(&self, reason: LostReason) {
        let sender = self.0.get().and_then(|parts| parts.sender.lock().take());
        if let Some(sender) = sender {
            // There is room for one, and no other is ever sent.
            let _ = sender.try_send(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_whether_anybody_listens_before_or_after() {
        for early in [true, false] {
            let loss_notifier = LossNotifier::default();
            if early {
                assert!(loss_notifier.listen(|| None).is_empty());
            }
            loss_notifier.ring(LostReason::Deleted);
            let heard = loss_notifier.listen(|| Some(LostReason::Deleted));
            assert_eq!(heard.try_recv(), Ok(LostReason::Deleted));
            assert!(heard.recv().is_err(), "disconnected, not silent");
        }
    }

    #[test]
    fn it_is_disconnected_when_it_is_gone() {
        let loss_notifier = LossNotifier::default();
        let heard = loss_notifier.listen(|| None).clone();
        drop(loss_notifier);
        assert!(heard.recv().is_err());
    }
}
