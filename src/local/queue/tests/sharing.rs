//! The lease, the end and the loss of a grant that several threads share.

use super::readers::{enter_as, hold_as, join, wait_as};
use super::*;

/// The end of a lease is known after the hold that prolonged it, for a release that is retried.
#[test]
fn a_grant_knows_how_long_redis_keeps_it() {
    let queue = queue();
    let (first, second) = (hold_as(&queue, 1, true), join(&queue, 2));
    let grant = first.grant();
    let asked = Moment::now();
    grant.renewed(asked, &grant.renewal(20 * LEASE, Some(first.number())));
    assert_eq!(unlock(&queue, &first, NO_LINGER), Unlocked::Shared);
    let ends = asked.after(Duration::from_millis(20 * LEASE));
    assert_eq!(grant.lease_ends(), ends);
    assert!(second.expires() < ends.before(Duration::from_millis(10 * LEASE)));
    // An idle grant would keep the lock longer than the terms of another thread say.
    assert_eq!(
        unlock(&queue, &second, Duration::from_secs(60)),
        Unlocked::Idle
    );
    assert!(!grant.is_transferable(renewed(), Moment::now()));
}

/// Its thread asks for that after the loss. The others would leave the lock without a holder.
#[test]
fn a_lost_hold_does_not_keep_a_shared_grant_in_redis() {
    let queue = queue();
    let (first, second) = (hold_as(&queue, 1, true), join(&queue, 2));
    first.lose(LostReason::RenewalLimit);
    first.keep_in_redis(1);
    assert!(first.grant().kept_in_redis().is_none());
    second.keep_in_redis(1);
    assert!(first.grant().kept_in_redis().is_some());
}

/// It has left the grant, so its lease cannot tell why.
#[test]
fn the_reason_of_a_loss_that_the_release_of_a_shared_hold_finds_is_kept() {
    let queue = queue();
    let (first, second) = (hold_as(&queue, 1, true), join(&queue, 2));
    unlock(&queue, &second, NO_LINGER);
    second.lose_on_release(LostReason::Deleted);
    assert_eq!(second.loss_reason(), Some(LostReason::Deleted));
    first.check().unwrap();
}

#[test]
fn the_loss_of_a_shared_grant_is_that_of_all_its_holds() {
    let queue = queue();
    let (first, second) = (hold_as(&queue, 1, true), join(&queue, 2));
    let level = second.push(renewed()).unwrap();
    let writer = wait_as(&queue, 3, false);
    first.grant().lose(LostReason::Deleted);
    assert!(first.check().is_err() && second.check().is_err());
    assert!(writer.is_woken(), "it does not depend on the readers");
    assert!(enter_as(&queue, 2, true).own.is_some());
    assert!(enter_as(&queue, 2, false).other.is_some());
    let reason = LostReason::Deleted;
    let lost = |last| Unlocked::Lost { reason, last };
    let unlocked = queue.unlock(&second, Unlocks::Level(level), NO_LINGER);
    assert_eq!(unlocked, lost(false));
    for hold in [&first, &second] {
        assert_eq!(unlock(&queue, hold, NO_LINGER), lost(true));
        queue.close(hold, None);
    }
    drop(writer.claim());
    assert!(queue.is_empty());
}

/// The first hold ends alone: another one takes its place in the grant.
#[test]
fn one_of_several_holds_can_be_lost() {
    let queue = queue();
    let (first, second) = (hold_as(&queue, 1, true), join(&queue, 2));
    second.push(renewed()).unwrap();
    first.lose(LostReason::RenewalLimit);
    assert!(first.check().is_err() && second.check().is_ok());
    assert_eq!((first.unguarded(), second.unguarded()), (1, 2));
    assert_eq!(second.count(), 2);
    let reason = LostReason::RenewalLimit;
    let lost = Unlocked::Lost { reason, last: true };
    assert_eq!(unlock(&queue, &first, NO_LINGER), lost);
    assert!(!first.grant().has_ended(), "it is not released in Redis");
    queue.close(&first, None);
    assert!(enter_as(&queue, 1, true).own.is_none());
    assert_eq!(unlock(&queue, &second, NO_LINGER), Unlocked::Inner);
    assert_eq!(unlock(&queue, &second, NO_LINGER), Unlocked::Last);
    queue.close(&second, None);
    assert!(queue.is_empty());
}

/// What is left of a hold ends by its own lease, and the others are renewed.
#[test]
fn holds_on_a_shared_grant_are_renewed_by_their_own_levels() {
    let queue = queue();
    let (first, second) = (hold_as(&queue, 1, true), join(&queue, 2));
    let grant = first.grant();
    let fixed = first.push(terms(LEASE, Renewals::None)).unwrap();
    let level = Unlocks::Level(Hold::FIRST_LEVEL);
    assert_eq!(queue.unlock(&first, level, NO_LINGER), Unlocked::Inner);
    let ends = first.expires();
    let late = ends.before(Duration::from_millis(LEASE / 4));
    let Step::Renew(renewal) = grant.next_step(late) else {
        panic!("the other hold needs a renewal");
    };
    assert_eq!((renewal.millis, renewal.count), (LEASE, Some(2)));
    grant.renewed(Moment::now().after(Duration::from_secs(1)), &renewal);
    assert_eq!(first.expires(), ends);
    assert!(second.expires() > ends && grant.expires() == second.expires());
    assert!(grant.schedule().ends <= ends);
    let Step::Renew(renewal) = grant.next_step(ends) else {
        panic!("the other hold needs a renewal");
    };
    assert_eq!(
        renewal.count,
        Some(1),
        "without the levels of the lost hold"
    );
    let reason = LostReason::Expired;
    assert!(first.loss_reason() == Some(reason) && second.loss_reason().is_none());
    assert!(first.check().is_err() && first.left().is_err() && first.count() == 0);
    second.check().unwrap();
    let lost = Unlocked::Lost { reason, last: true };
    let unlocked = queue.unlock(&first, Unlocks::Level(fixed), NO_LINGER);
    assert_eq!(unlocked, lost);
}

/// A renewal for another reader, whose reply arrives when that reader has left.
#[test]
fn a_late_reply_prolongs_no_fixed_lease() {
    let queue = queue();
    let (first, second) = (hold_as(&queue, 1, true), join(&queue, 2));
    let grant = first.grant();
    first.push(terms(LEASE, Renewals::None)).unwrap();
    first.pop(Unlocks::Level(Hold::FIRST_LEVEL));
    let ends = first.expires();
    let Step::Renew(renewal) = grant.next_step(ends.before(Duration::from_millis(LEASE / 4)))
    else {
        panic!("the other hold needs a renewal");
    };
    assert_eq!(unlock(&queue, &second, NO_LINGER), Unlocked::Shared);
    grant.renewed(Moment::now().after(Duration::from_secs(1)), &renewal);
    assert_eq!(first.expires(), ends);
    assert!(matches!(grant.next_step(ends), Step::Forget));
    assert_eq!(first.loss_reason(), Some(LostReason::Expired));
}
