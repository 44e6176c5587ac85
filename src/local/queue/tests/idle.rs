//! Grants that no thread uses.

use super::*;

#[test]
fn an_idle_grant_is_taken_again_or_released_at_its_deadline() {
    let linger = Duration::from_secs(60);
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 0);
    assert_eq!(unlock(&queue, &first, linger), Unlocked::Idle);
    let mut second = claim(&queue, "k", 2);
    let CameWith::Idle(hold) = second.take(renewed(), &PLAIN) else {
        panic!("it suits");
    };
    assert!(Arc::ptr_eq(&hold.grant(), &first.grant()));
    assert_eq!(unlock(&queue, &hold, linger), Unlocked::Idle);
    assert!(matches!(first.grant().next_step(Moment::now()), Step::Wait));
    let end = Moment::now().after(linger + Duration::from_secs(1));
    assert!(first.grant().schedule().due < end);
    assert!(matches!(first.grant().next_step(end), Step::Release(_)));
    assert!(matches!(first.grant().next_step(end), Step::Forget));
    assert!(queue.is_empty());
}

#[test]
fn an_idle_grant_that_does_not_suit_is_released_by_the_thread_that_wants_the_lock() {
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 0);
    unlock(&queue, &first, Duration::from_secs(60));
    let mut second = claim(&queue, "k", 2);
    let fixed = terms(LEASE, Renewals::None);
    let CameWith::Unsuited(grant) = second.take(fixed, &PLAIN) else {
        panic!("a fixed lease is acquired in Redis");
    };
    assert!(Arc::ptr_eq(&grant, &first.grant()));
    assert!(matches!(
        first.grant().next_step(Moment::NEVER),
        Step::Forget
    ));
}

#[test]
fn no_grant_is_idle_longer_than_a_slice_and_the_time_to_linger() {
    let queue = queue();
    let old = held(&queue, "k", 1, 80, 0);
    let linger = Duration::from_millis(60);
    assert_eq!(unlock(&queue, &old, linger), Unlocked::Last);
}

#[test]
fn a_count_that_was_not_written_does_not_make_an_idle_grant_due() {
    let queue = queue();
    let first = held(&queue, "k", 1, 0, 0);
    let level = first.push(renewed()).unwrap();
    let renewal = first.grant().renewal(0, None);
    first.grant().renewed(Moment::now(), &renewal);
    let linger = Duration::from_secs(60);
    let inner = queue.unlock(&first, Unlocks::Level(level), linger);
    assert_eq!(inner, Unlocked::Inner);
    assert_eq!(unlock(&queue, &first, linger), Unlocked::Idle);
    assert!(first.grant().schedule().due > Moment::now().after(Duration::from_secs(1)));
}

#[test]
fn a_grant_of_one_kind_of_lock_does_not_suit_another_kind() {
    let queue = queue();
    let plain = held(&queue, "k", 1, 0, 0);
    let waiting = wait_for(&queue, "k", 2, renewed(), &FENCED);
    assert_eq!(unlock(&queue, &plain, NO_LINGER), Unlocked::Last);
    queue.close(&plain, None);
    drop(queue.leave(&waiting.waiter));

    let plain = held(&queue, "k", 1, 0, 0);
    let linger = Duration::from_secs(60);
    assert_eq!(unlock(&queue, &plain, linger), Unlocked::Idle);
    let taken = claim(&queue, "k", 2).take(renewed(), &FENCED);
    assert!(matches!(taken, CameWith::Unsuited(_)), "{taken:?}");
}
