//! Holds that stand for one lock together, for as long as enough of them stand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crossbeam_channel::Receiver;

use super::hold::Hold;
use super::loss_notifier::LossNotifier;
use crate::error::LostReason;

/// Told of each loss by the hold that is lost; rings with the first that is one too many.
#[derive(Debug)]
pub(crate) struct Quorum {
    /// How many more may be lost.
    spare: AtomicUsize,
    loss_notifier: LossNotifier,
    /// Those that end with it. They keep it.
    bound: Vec<Weak<Hold>>,
}

impl Quorum {
    /// Listens to `holds`, of which `needed` must stand.
    pub(crate) fn of<'a>(
        holds: impl ExactSizeIterator<Item = &'a Arc<Hold>>,
        needed: usize,
    ) -> Arc<Self> {
        let quorum = Arc::new(Self {
            spare: AtomicUsize::new(holds.len().saturating_sub(needed)),
            loss_notifier: LossNotifier::default(),
            bound: Vec::new(),
        });
        // Before any loss, which rings in vain where nobody listens.
        quorum.loss_notifier();
        for hold in holds {
            hold.tell(&quorum);
        }
        quorum
    }

    /// Binds `holds` together: when fewer than `needed` stand, the others are of no use, and keep the lock
    /// from those who could have it.
    pub(crate) fn bind(holds: &[Arc<Hold>], needed: usize) {
        let quorum = Arc::new(Self {
            spare: AtomicUsize::new(holds.len().saturating_sub(needed)),
            loss_notifier: LossNotifier::default(),
            bound: holds.iter().map(Arc::downgrade).collect(),
        });
        for hold in holds {
            hold.bind(&quorum);
        }
    }

    /// Where it is heard that too few stand.
    pub(crate) fn loss_notifier(&self) -> &Receiver<LostReason> {
        self.loss_notifier.listen(|| None)
    }

    /// Whether threads of this process wait for one of the bound holds.
    pub(super) fn is_awaited(&self) -> bool {
        let mut bound = self.bound.iter().filter_map(Weak::upgrade);
        bound.any(|hold| hold.has_waiters())
    }

    /// One of its holds is lost; each says so once.
    pub(super) fn lost(&self, reason: LostReason) {
        let less = |spare: usize| spare.checked_sub(1);
        let spared = self
            .spare
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        if spared.is_err() {
            self.loss_notifier.ring(reason);
            for hold in self.bound.iter().filter_map(Weak::upgrade) {
                hold.forsake(reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::owner::ThreadId;
    use crate::local::hold::tests::hold;

    fn holds() -> Vec<Arc<Hold>> {
        let one = || hold(&Arc::default(), ThreadId::current());
        vec![one(), one(), one()]
    }

    #[test]
    fn it_rings_once_and_with_the_loss_that_is_one_too_many() {
        let holds = holds();
        let quorum = Quorum::of(holds.iter(), 2);
        holds[0].lose(LostReason::Deleted);
        assert!(quorum.loss_notifier().is_empty(), "two stand");
        holds[0].lose(LostReason::Deleted);
        assert!(quorum.loss_notifier().is_empty(), "a hold is lost once");
        holds[1].lose(LostReason::Taken);
        assert_eq!(quorum.loss_notifier().try_recv(), Ok(LostReason::Taken));
        holds[2].lose(LostReason::Taken);
        assert!(
            quorum.loss_notifier().recv().is_err(),
            "disconnected, not silent"
        );
    }

    #[test]
    fn what_is_bound_ends_together() {
        let holds = holds();
        Quorum::bind(&holds, 2);
        holds[2].lose(LostReason::Deleted);
        assert!(holds[0].check().is_ok() && holds[1].check().is_ok());
        holds[0].lose(LostReason::Deleted);
        assert!(holds[1].check().is_err(), "it is of no use alone");
    }

    #[test]
    fn a_majority_is_awaited_if_any_of_its_parts_is() {
        let holds = holds();
        Quorum::bind(&holds, 2);
        assert!(!holds[1].is_awaited());
        assert!(holds[0].set_waiters(true));
        assert!(holds[1].is_awaited());
        assert!(holds[1].schedule().due < holds[1].expires());
        holds[0].set_waiters(false);
        assert!(!holds[1].is_awaited());
    }

    #[test]
    fn losses_before_it_count() {
        let holds = holds();
        holds[2].lose(LostReason::Deleted);
        let all = Quorum::of(holds.iter(), 3);
        assert_eq!(all.loss_notifier().try_recv(), Ok(LostReason::Deleted));
        let most = Quorum::of(holds.iter(), 2);
        assert!(most.loss_notifier().is_empty());
        holds[0].lose(LostReason::Expired);
        assert_eq!(most.loss_notifier().try_recv(), Ok(LostReason::Expired));
    }

    #[test]
    fn a_hold_may_be_a_part_of_several() {
        let holds = holds();
        let quorums = [
            Quorum::of(holds[..2].iter(), 2),
            Quorum::of(holds[1..].iter(), 2),
        ];
        drop(Quorum::of(holds.iter(), 3));
        holds[1].lose(LostReason::Taken);
        for quorum in quorums {
            assert_eq!(quorum.loss_notifier().try_recv(), Ok(LostReason::Taken));
        }
    }
}
