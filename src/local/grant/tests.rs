use super::*;
use crate::error::Error;
use crate::local::tests::{LEASE, adopted_grant, grant, renewed, terms};
use crate::watchdog::{Renew, Step};
use proptest::prelude::*;

fn taken(millis: u64, renewals: Renewals) -> Arc<Hold> {
    let terms = terms(millis, renewals);
    grant(&Arc::default(), "k", terms, Moment::now(), 0..0).first_hold(HolderId::current_thread())
}

fn reason(hold: &Hold) -> Option<LostReason> {
    match hold.check() {
        Err(Error::Lost { reason, .. }) => Some(reason),
        _ => None,
    }
}

#[test]
fn a_lost_hold_stays_lost_after_a_late_renewal() {
    let hold = taken(1, Renewals::Unlimited);
    let renewal = hold.grant().renewal(60_000, None);
    while !hold.grant().expires().is_past() {}
    assert_eq!(reason(&hold), Some(LostReason::Expired));
    hold.grant().renewed(Moment::now(), &renewal);
    assert_eq!(reason(&hold), Some(LostReason::Expired));
    hold.lose(LostReason::Taken);
    assert_eq!(reason(&hold), Some(LostReason::Expired), "and is lost once");
}

#[test]
fn reading_an_expired_lease_does_not_end_the_hold() {
    let hold = taken(1, Renewals::Unlimited);
    while !hold.grant().expires().is_past() {}
    assert!(matches!(hold.left(), Err(Error::Lost { .. })));
    assert_eq!((hold.count_unchanged(), hold.levels()), (0, 1));
    assert_eq!(
        hold.pop(Unlocks::Newest),
        Unlocked::Last,
        "it is not lost yet"
    );
}

#[test]
fn a_lost_hold_is_unlocked_level_by_level() {
    let hold = taken(LEASE, Renewals::Unlimited);
    hold.push(renewed()).unwrap();
    let reason = LostReason::Taken;
    hold.lose(reason);
    assert_eq!(hold.count(), 0);
    let last = false;
    assert_eq!(hold.pop(Unlocks::Newest), Unlocked::Lost { reason, last });
    assert_eq!(
        hold.pop(Unlocks::Newest),
        Unlocked::Lost { reason, last: true }
    );
    assert_eq!(hold.pop(Unlocks::Newest), Unlocked::NotHeld);
}

#[test]
fn an_adopted_grant_gets_no_further_hold() {
    let adopted = adopted_grant(&Arc::default(), renewed(), Moment::now());
    let adopted = adopted.first_hold(HolderId::guard(1));
    for (hold, expected) in [(adopted, false), (taken(LEASE, Renewals::Unlimited), true)] {
        assert_eq!(hold.pop(Unlocks::Newest), Unlocked::Last);
        let grant = hold.grant();
        assert_eq!(grant.is_transferable(renewed(), Moment::now()), expected);
    }
}

/// The reply may be late, and the limit was counted by another client until then.
#[test]
fn the_limit_of_an_adopted_hold_counts_from_its_request() {
    let of_guard = || HolderId::guard(1);
    let asked = Moment::now().before(Duration::from_secs(2));
    let limited = terms(LEASE, Renewals::For(Duration::from_millis(2 * LEASE)));
    let hold = adopted_grant(&Arc::default(), limited, asked).first_hold(of_guard());
    let at = |millis| asked.after(Duration::from_millis(millis));
    let renewal_at = |now| hold.state.lock().levels.renewal_at(now);
    assert_eq!(renewal_at(at(LEASE)), Some(LEASE));
    assert_eq!(renewal_at(at(LEASE + 1_000)), Some(LEASE - 1_000));
    assert_eq!(renewal_at(at(2 * LEASE)), None);
}

/// So a reply to it that is lost leaves no doubt about the hold count in Redis.
#[test]
fn a_confirmation_does_not_write_the_hold_count() {
    let hold = taken(LEASE, Renewals::Unlimited);
    hold.push(renewed()).unwrap();
    let confirmation = hold.grant().confirmation(Moment::now()).unwrap();
    assert_eq!((confirmation.millis, confirmation.count), (0, None));
    let earlier = hold.grant().confirmation(Moment::ZERO);
    assert!(earlier.is_none(), "it was confirmed later");
}

#[test]
fn no_level_is_added_to_a_hold_that_is_lost() {
    let hold = taken(LEASE, Renewals::Unlimited);
    hold.lose(LostReason::Taken);
    assert!(hold.push(renewed()).is_err());
    let expires = hold.grant().expires();
    let renewal = hold.grant().renewal(60_000, None);
    hold.grant().renewed(Moment::now(), &renewal);
    assert_eq!(hold.grant().expires(), expires);
}

#[test]
fn while_its_last_level_is_released_a_hold_is_neither_held_nor_lost() {
    let hold = taken(LEASE, Renewals::Unlimited);
    assert_eq!(hold.pop(Unlocks::Newest), Unlocked::Last);
    assert!(matches!(hold.check(), Err(Error::NotHeld { .. })));
    hold.grant().lose(LostReason::Deleted);
    assert!(matches!(hold.check(), Err(Error::NotHeld { .. })));
    hold.lose_on_release(LostReason::Deleted);
    assert_eq!(reason(&hold), Some(LostReason::Deleted));
}

#[test]
fn the_watchdog_writes_a_hold_count_that_lasts() {
    let hold = taken(60_000, Renewals::Unlimited);
    let grant = hold.grant();
    let counts = |now: Moment| match grant.next_step(now) {
        Step::Renew(renewal) => {
            assert_eq!(renewal.millis, 0, "the lease needs no renewal yet");
            Some(renewal)
        }
        _ => None,
    };
    assert!(!grant.begin_count_note(), "Redis has the first level");
    let level = hold.push(terms(60_000, Renewals::Unlimited)).unwrap();
    assert!(grant.begin_count_note());
    assert!(!grant.begin_count_note(), "the watchdog knows");
    assert!(counts(Moment::now()).is_none(), "the level may be short");
    let soon = Moment::now().after(Duration::from_secs(1));
    assert!(grant.schedule().due <= soon);
    let renewal = counts(soon).unwrap();
    assert_eq!(renewal.count, Some(2));
    grant.renewed(Moment::now(), &renewal);
    assert!(counts(soon).is_none());
    assert_eq!(hold.pop(Unlocks::Level(level)), Unlocked::Inner);
    assert!(grant.schedule().due <= soon);
    assert_eq!(counts(soon).unwrap().count, Some(1));
    hold.push(terms(60_000, Renewals::Unlimited)).unwrap();
    assert!(counts(soon).is_none(), "the count is what Redis has");
}

/// Its reply may come before or after the reply to a count that was written meanwhile.
#[test]
fn a_renewal_of_a_thread_leaves_the_count_to_the_watchdog() {
    let hold = taken(60_000, Renewals::Unlimited);
    let grant = hold.grant();
    let soon = Moment::now().after(Duration::from_secs(1));
    hold.push(terms(60_000, Renewals::Unlimited)).unwrap();
    grant.schedule();
    let Step::Renew(written) = grant.next_step(soon) else {
        panic!("the count has changed");
    };
    let asked = grant.renewal(90_000, None);
    assert_eq!(asked.count, None);
    grant.renewed(Moment::now(), &written);
    grant.renewed(Moment::now(), &asked);
    grant.schedule();
    assert!(matches!(grant.next_step(soon), Step::Wait), "Redis has it");
}

#[test]
fn a_suspended_hold_continues_on_another_grant_with_its_levels() {
    let hold = taken(LEASE, Renewals::Left(3));
    let guarded = hold.push(terms(LEASE * 2, Renewals::None)).unwrap();
    hold.guard(guarded);
    let lost = hold.subscribe_to_loss(true);
    let first = hold.grant();
    assert_eq!(hold.terms_to_resume(), None, "it is not suspended");
    assert_eq!(hold.pop(Unlocks::Suspends), Unlocked::Last);
    assert!(first.is_free());
    assert!(matches!(hold.check(), Err(Error::NotHeld { .. })));
    assert_eq!((hold.count(), hold.unguarded()), (0, 0));
    for unlocks in [Unlocks::Newest, Unlocks::Level(guarded), Unlocks::Suspends] {
        assert_eq!(hold.pop(unlocks), Unlocked::NotHeld);
    }
    let wanted = hold.terms_to_resume().unwrap();
    assert_eq!(wanted, terms(LEASE * 2, Renewals::Unlimited));
    // The first grant may be another thread's meanwhile.
    first.lose(LostReason::Deleted);

    let other = taken(wanted.millis, wanted.renewals);
    assert_eq!(hold.resume(&other), None);
    assert!(Arc::ptr_eq(&hold.grant(), &other.grant()));
    hold.check().unwrap();
    assert_eq!((hold.count(), hold.unguarded()), (2, 1));
    assert!(lost.is_empty());
    drop(other);
    hold.grant().lose(LostReason::Taken);
    assert_eq!(lost.try_recv(), Ok(LostReason::Taken));
    let reason = LostReason::Taken;
    let last = false;
    assert_eq!(hold.pop(Unlocks::Newest), Unlocked::Lost { reason, last });
    assert_eq!(hold.pop(Unlocks::Newest), Unlocked::NotHeld);
    let last = true;
    let of_guard = hold.pop(Unlocks::Level(guarded));
    assert_eq!(of_guard, Unlocked::Lost { reason, last });
}

#[test]
fn a_hold_that_continues_on_a_lost_grant_is_lost() {
    let hold = taken(LEASE, Renewals::Unlimited);
    assert_eq!(hold.pop(Unlocks::Suspends), Unlocked::Last);
    let other = taken(LEASE, Renewals::Unlimited);
    other.lose(LostReason::Taken);
    assert_eq!(hold.resume(&other), Some(LostReason::Taken));
    assert_eq!(reason(&hold), Some(LostReason::Taken));
    let (reason, last) = (LostReason::Taken, true);
    assert_eq!(hold.pop(Unlocks::Newest), Unlocked::Lost { reason, last });
}

#[test]
fn a_release_that_finds_a_suspended_lock_gone_gives_the_levels_back() {
    let hold = taken(LEASE, Renewals::Unlimited);
    assert_eq!(hold.pop(Unlocks::Suspends), Unlocked::Last);
    hold.lose_on_release(LostReason::Deleted);
    assert_eq!(reason(&hold), Some(LostReason::Deleted));
    let (reason, last) = (LostReason::Deleted, true);
    assert_eq!(hold.pop(Unlocks::Newest), Unlocked::Lost { reason, last });
    let hold = taken(LEASE, Renewals::Unlimited);
    hold.lose(LostReason::Deleted);
    let (reason, last) = (LostReason::Deleted, false);
    assert_eq!(hold.pop(Unlocks::Suspends), Unlocked::Lost { reason, last });
    assert_eq!(hold.levels(), 1);
}

#[test]
fn a_suspended_hold_whose_thread_gives_up_is_over() {
    let hold = taken(LEASE, Renewals::Unlimited);
    assert_eq!(hold.pop(Unlocks::Suspends), Unlocked::Last);
    hold.abandon(None);
    assert!(matches!(hold.check(), Err(Error::NotHeld { .. })));
    assert_eq!(hold.pop(Unlocks::Newest), Unlocked::NotHeld);
    assert_eq!(hold.terms_to_resume(), None);
}

proptest! {
    /// Otherwise a lease could end before the watchdog knows of it.
    #[test]
    fn the_watchdog_reads_the_schedule_of_a_new_grant_before_the_grant_is_due(
        millis in prop_oneof![1..100u64, 1..100_000_000u64],
        renewals in prop::sample::select(
            vec![Renewals::None, Renewals::Left(0), Renewals::Unlimited],
        ),
    ) {
        let hold = taken(millis, renewals);
        let grant = hold.grant();
        let read_by = grant.watched_until();
        prop_assert!(read_by <= grant.schedule().due);
    }
}
