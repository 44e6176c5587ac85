use super::*;
use crate::lease::Renewals;
use crate::script::Renewal;
use crate::watchdog::{Renew, Step};

const LEASE: u64 = 3000;

/// A new hold of `thread` with a renewed lease.
pub(in crate::local) fn hold(queue: &Arc<LocalQueue>, thread: ThreadId) -> Arc<Hold> {
    let terms = terms(LEASE, Renewals::Unlimited);
    let mut hold = new(queue, terms, Moment::now());
    hold.thread = thread;
    Arc::new(hold)
}

fn terms(millis: u64, renewals: Renewals) -> Terms {
    Terms { millis, renewals }
}

fn new(queue: &Arc<LocalQueue>, terms: Terms, asked: Moment) -> Hold {
    Hold::new(
        LockKey::new("", "lock"),
        Grant {
            owner: OwnerId::current(&uuid::Uuid::new_v4()),
            asked,
            terms,
            token: None,
        },
        queue,
        Arc::default(),
    )
}

fn taken(millis: u64, renewals: Renewals) -> (Hold, Moment) {
    let asked = Moment::now();
    (new(&Arc::default(), terms(millis, renewals), asked), asked)
}

fn reason(hold: &Hold) -> Option<LostReason> {
    match hold.check() {
        Err(Error::Lost { reason, .. }) => Some(reason),
        _ => None,
    }
}

#[test]
fn a_lost_hold_stays_lost_after_a_late_renewal() {
    let (hold, asked) = taken(1, Renewals::Unlimited);
    while !hold.expires().is_past() {}
    assert_eq!(reason(&hold), Some(LostReason::Expired));
    let renewal = Renewal {
        key: hold.key().clone(),
        owner: hold.owner(),
        millis: 60_000,
    };
    hold.renewed(asked, &renewal);
    assert_eq!(reason(&hold), Some(LostReason::Expired));
    hold.lose(LostReason::Taken);
    assert_eq!(reason(&hold), Some(LostReason::Expired), "and is lost once");
}

#[test]
fn reading_an_expired_lease_does_not_end_the_hold() {
    let (hold, _) = taken(1, Renewals::Unlimited);
    while !hold.expires().is_past() {}
    assert!(matches!(hold.left(), Err(Error::Lost { .. })));
    assert_eq!((hold.count_unchanged(), hold.levels()), (0, 1));
    assert_eq!(hold.pop(None), Popped::Last, "it is not lost yet");
}

#[test]
fn a_subscriber_is_notified_of_a_loss_before_and_after_it() {
    let (hold, _) = taken(LEASE, Renewals::Unlimited);
    let early = hold.loss_receiver().clone();
    hold.lose(LostReason::Deleted);
    assert_eq!(early.try_recv(), Ok(LostReason::Deleted));
    let (hold, _) = taken(LEASE, Renewals::Unlimited);
    hold.lose(LostReason::Deleted);
    assert_eq!(hold.loss_receiver().try_recv(), Ok(LostReason::Deleted));
}

#[test]
fn a_lost_hold_is_unlocked_level_by_level() {
    let (hold, asked) = taken(LEASE, Renewals::Unlimited);
    hold.push(terms(LEASE, Renewals::Unlimited), asked).unwrap();
    let reason = LostReason::Taken;
    hold.lose(reason);
    assert_eq!(hold.count(), 0);
    assert_eq!(
        hold.pop(None),
        Popped::Lost {
            reason,
            last: false
        }
    );
    assert_eq!(hold.pop(None), Popped::Lost { reason, last: true });
    assert_eq!(hold.pop(None), Popped::Nothing);
}

#[test]
fn no_level_is_added_to_a_hold_that_is_lost() {
    let (hold, asked) = taken(LEASE, Renewals::Unlimited);
    hold.lose(LostReason::Taken);
    assert!(hold.push(terms(LEASE, Renewals::Unlimited), asked).is_err());
    assert!(hold.extended(asked, 60_000).is_err());
}

#[test]
fn while_its_last_level_is_released_a_hold_is_neither_held_nor_lost() {
    let (hold, _) = taken(LEASE, Renewals::Unlimited);
    assert_eq!(hold.pop(None), Popped::Last);
    assert!(matches!(hold.check(), Err(Error::NotHeld { .. })));
    hold.lose(LostReason::Deleted);
    assert!(matches!(hold.check(), Err(Error::NotHeld { .. })));
    hold.lose_on_release(LostReason::Deleted);
    assert_eq!(reason(&hold), Some(LostReason::Deleted));
}

#[test]
fn the_watchdog_renews_a_hold_and_ends_it_once_on_time() {
    let (hold, _) = taken(LEASE, Renewals::Unlimited);
    assert!(matches!(hold.next_step(Moment::ZERO), Step::Wait));
    assert!(matches!(
        hold.next_step(hold.schedule().due),
        Step::Renew(_)
    ));
    assert!(matches!(hold.next_step(hold.expires()), Step::Forget));
    assert_eq!(reason(&hold), Some(LostReason::Expired));
    assert!(matches!(hold.next_step(Moment::ZERO), Step::Forget));
}

#[test]
fn a_hold_without_renewals_left_is_lost() {
    let (hold, _) = taken(LEASE, Renewals::Left(0));
    assert!(matches!(hold.next_step(hold.schedule().due), Step::Forget));
    assert_eq!(reason(&hold), Some(LostReason::RenewalLimit));
}
