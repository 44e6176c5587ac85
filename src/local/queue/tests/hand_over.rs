//! Which grants are handed over, and to which thread.

use super::*;

#[test]
fn a_grant_is_handed_over_to_the_first_thread_that_waits() {
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 0);
    let (second, third) = (wait(&queue, "k", 2), wait(&queue, "k", 3));
    assert_eq!(unlock(&queue, &first, NO_LINGER), Unlocked::HandedOver);
    assert!(second.is_woken() && !third.is_woken());
    let next = second.hold();
    assert!(Arc::ptr_eq(&next.grant(), &first.grant()));
    assert!(next.check().is_ok() && first.check().is_err());
    assert!(queue.hold_of(&lock("k"), thread(1), false).is_none());
    // The thread that had it before can do nothing to it.
    assert_eq!(unlock(&queue, &first, NO_LINGER), Unlocked::NotHeld);
    assert!(next.check().is_ok());
}

#[test]
fn a_grant_that_is_lost_while_a_hold_continues_on_it_keeps_no_ticket() {
    let queue = queue();
    let suspended = held(&queue, "k", 1, 0, 0);
    queue.unlock(&suspended, Unlocks::Suspends, NO_LINGER);
    queue.close(&suspended, None);
    let current = held(&queue, "k", 1, 0, 0);
    let second = wait(&queue, "k", 2);
    let grant = current.grant();
    let lost = grant.end_as_lost(LostReason::Taken).unwrap();
    queue.resume(&suspended, &current);
    queue.lost(&grant, &lost);
    assert!(second.is_woken());
    assert!(queue.hold_of(&lock("k"), thread(1), false).is_some());
}

#[test]
fn a_grant_that_is_lost_on_its_way_is_not_the_loss_of_its_receiver() {
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 0);
    let (second, third) = (wait(&queue, "k", 2), wait(&queue, "k", 3));
    unlock(&queue, &first, NO_LINGER);
    first.grant().lose(LostReason::Taken);
    let mut claim = second.claim().unwrap();
    assert!(matches!(
        claim.take(second.waiter.wanted.terms, &PLAIN),
        CameWith::Loss
    ));
    drop(claim);
    assert!(queue.hold_of(&lock("k"), thread(2), false).is_none());
    drop(third.claim().expect("the ticket has passed on"));
    assert!(queue.is_empty());
}

#[test]
fn a_lost_grant_is_not_handed_over() {
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 0);
    let second = wait(&queue, "k", 2);
    first.grant().lose(LostReason::Deleted);
    let mut claim = second.claim().unwrap();
    assert!(matches!(
        claim.take(second.waiter.wanted.terms, &PLAIN),
        CameWith::Nothing
    ));
    let reason = LostReason::Deleted;
    assert_eq!(
        unlock(&queue, &first, NO_LINGER),
        Unlocked::Lost { reason, last: true }
    );
}

#[test]
fn a_grant_is_handed_over_within_its_slice_and_for_its_lease() {
    let other_lease = terms(LEASE * 2, Renewals::Unlimited);
    let short = terms(LEASE / 2, Renewals::Unlimited);
    let fixed = terms(LEASE, Renewals::None);
    for (age, wanted, expected) in [
        (0, renewed(), Unlocked::HandedOver),
        (1000, renewed(), Unlocked::Last),
        (0, other_lease, Unlocked::Last),
        (0, short, Unlocked::Last),
        (0, fixed, Unlocked::Last),
        (0, terms(LEASE, Renewals::Left(3)), Unlocked::HandedOver),
    ] {
        let queue = queue();
        let first = held(&queue, "k", 1, age, 0);
        let second = wait_with(&queue, "k", 2, wanted);
        let unlocked = unlock(&queue, &first, NO_LINGER);
        assert_eq!(unlocked, expected, "{age} ms, {wanted:?}");
        if expected == Unlocked::Last {
            assert!(!second.is_woken(), "the release in Redis comes first");
            queue.close(&first, None);
        }
        assert!(second.is_woken());
    }
}

#[test]
fn each_hold_has_its_own_token_and_none_is_given_twice() {
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 2);
    let wait = |number| wait_for(&queue, "k", number, renewed(), &FENCED);
    let (second, third) = (wait(2), wait(3));
    assert_eq!(unlock(&queue, &first, NO_LINGER), Unlocked::HandedOver);
    let next = second.hold();
    assert_eq!((first.token(), next.token()), (Some(7), Some(8)));
    let unlocked = unlock(&queue, &next, NO_LINGER);
    assert_eq!(unlocked, Unlocked::Last, "no token is left");
    assert!(!third.is_woken());
}

#[test]
fn a_grant_of_a_leaving_thread_goes_to_the_next_or_is_released() {
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 0);
    let (second, third) = (wait(&queue, "k", 2), wait(&queue, "k", 3));
    unlock(&queue, &first, NO_LINGER);
    drop(queue.leave(&second.waiter).expect("it has the grant"));
    assert!(third.is_woken());
    let hold = third.hold();
    assert!(Arc::ptr_eq(&hold.grant(), &first.grant()));

    let fourth = wait(&queue, "k", 4);
    unlock(&queue, &hold, NO_LINGER);
    drop(queue.leave(&fourth.waiter).expect("it has the grant"));
    let step = first.grant().next_step(Moment::now());
    assert!(matches!(step, Step::Release(_)), "{step:?}");
    assert!(queue.is_empty());
}

/// The watchdog finds the loss after the thread has removed its last level, and before the queue
/// has decided what follows.
#[test]
fn a_grant_that_is_lost_while_it_is_unlocked_has_ended() {
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 0);
    let grant = first.grant();
    assert_eq!(first.pop(Unlocks::Newest), Unlocked::Last);
    grant.lose(LostReason::Taken);
    assert!(!grant.is_transferable(renewed(), Moment::now()));
    assert!(!grant.make_idle(Moment::NEVER));
}

/// With its owner id, Redis could execute the query under the next hold.
#[test]
fn a_grant_whose_query_may_still_be_executed_gets_no_other_hold() {
    for (ends, unlocked) in [(true, Unlocked::Idle), (false, Unlocked::Last)] {
        let queue = queue();
        let first = held(&queue, "k", 1, 0, 0);
        let grant = first.grant();
        let begin = || first.begin_query(&grant, NO_LINGER).unwrap();
        let query = begin().expect("no other is under way");
        assert!(begin().is_none(), "one after another");
        match ends {
            true => query.end(),
            false => drop(query),
        }
        let query = begin().unwrap();
        assert_eq!((query.number, query.follows_unclear), (2, !ends));
        query.end();
        assert_eq!(unlock(&queue, &first, Duration::from_secs(60)), unlocked);
        assert_eq!(grant.is_transferable(renewed(), Moment::now()), ends);
        assert!(first.begin_query(&grant, NO_LINGER).is_err());
    }
}
