//! Several holds that count as one lock while enough of them are held.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::base::Subscription;
use crate::error::LostReason;
use crate::local::{Hold, LossNotifier, OnLoss};

/// Counts the losses of several holds, and notifies when fewer than needed are left.
#[derive(Debug)]
pub(crate) struct Quorum {
    /// How many more holds may be lost.
    losses_left: AtomicUsize,
    loss_notifier: LossNotifier,
    /// The holds that end when too few are left. Each of them owns this quorum.
    members: Vec<Weak<Hold>>,
}

impl Quorum {
    fn new(holds: usize, needed: usize, members: Vec<Weak<Hold>>) -> Arc<Self> {
        Arc::new(Self {
            losses_left: AtomicUsize::new(holds.saturating_sub(needed)),
            loss_notifier: LossNotifier::default(),
            members,
        })
    }

    /// Observes `holds`, of which `needed` must be held.
    pub(crate) fn observe<'a>(
        holds: impl ExactSizeIterator<Item = &'a Arc<Hold>>,
        needed: usize,
    ) -> Arc<Self> {
        let quorum = Self::new(holds.len(), needed, Vec::new());
        // Before any loss: one that comes before the first subscription is not kept.
        drop(quorum.subscribe_to_loss());
        for hold in holds {
            let observer = Arc::downgrade(&quorum);
            hold.observe(observer)
                .inspect(|reason| quorum.lost(*reason));
        }
        quorum
    }

    /// Makes `holds` a majority. When fewer than `needed` are left, all of them end: the rest would
    /// only keep other clients from the lock.
    pub(crate) fn join(holds: &[&Arc<Hold>], needed: usize) {
        let members = holds.iter().map(|hold| Arc::downgrade(hold)).collect();
        let quorum = Self::new(holds.len(), needed, members);
        for hold in holds {
            let majority = Arc::clone(&quorum);
            hold.join(majority).inspect(|reason| quorum.lost(*reason));
        }
    }

    /// A channel that gets one message when too few holds are left.
    pub(crate) fn subscribe_to_loss(&self) -> Subscription<LostReason> {
        self.loss_notifier.subscribe(|| None)
    }
}

impl OnLoss for Quorum {
    fn lost(&self, reason: LostReason) {
        let decrement = |losses_left: usize| losses_left.checked_sub(1);
        let counted = self
            .losses_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, decrement);
        if counted.is_ok() {
            return;
        }
        self.loss_notifier.notify(reason);
        for hold in self.members.iter().filter_map(Weak::upgrade) {
            hold.lose_with_majority(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::HolderId;
    use crate::local::tests::hold;

    fn holds() -> Vec<Arc<Hold>> {
        let one = || hold(&Arc::default(), HolderId::current_thread());
        vec![one(), one(), one()]
    }

    #[test]
    fn it_notifies_once_when_too_few_holds_are_left() {
        let holds = holds();
        let quorum = Quorum::observe(holds.iter(), 2);
        let lost = quorum.subscribe_to_loss();
        holds[0].lose(LostReason::Deleted);
        assert!(lost.is_empty(), "two are left");
        holds[0].lose(LostReason::Deleted);
        assert!(lost.is_empty(), "a hold is lost once");
        holds[1].lose(LostReason::Taken);
        assert_eq!(lost.try_recv(), Ok(LostReason::Taken));
        holds[2].lose(LostReason::Taken);
        assert!(lost.recv().is_err(), "disconnected after one message");
    }

    #[test]
    fn the_holds_of_a_majority_end_together() {
        let holds = holds();
        Quorum::join(&holds.iter().collect::<Vec<_>>(), 2);
        holds[2].lose(LostReason::Deleted);
        assert!(holds[0].check().is_ok() && holds[1].check().is_ok());
        holds[0].lose(LostReason::Deleted);
        assert!(holds[1].check().is_err(), "it is no majority alone");
    }

    #[test]
    fn earlier_losses_count() {
        let holds = holds();
        holds[2].lose(LostReason::Deleted);
        let all = Quorum::observe(holds.iter(), 3);
        assert_eq!(all.subscribe_to_loss().try_recv(), Ok(LostReason::Deleted));
        let most = Quorum::observe(holds.iter(), 2);
        assert!(most.subscribe_to_loss().is_empty());
        holds[0].lose(LostReason::Expired);
        assert_eq!(most.subscribe_to_loss().try_recv(), Ok(LostReason::Expired));
    }

    #[test]
    fn several_quorums_may_observe_a_hold() {
        let holds = holds();
        let quorums = [
            Quorum::observe(holds[..2].iter(), 2),
            Quorum::observe(holds[1..].iter(), 2),
        ];
        drop(Quorum::observe(holds.iter(), 3));
        holds[1].lose(LostReason::Taken);
        for quorum in quorums {
            assert_eq!(quorum.subscribe_to_loss().try_recv(), Ok(LostReason::Taken));
        }
    }
}
