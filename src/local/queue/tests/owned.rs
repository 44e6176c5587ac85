//! Holds that belong to a guard and to no thread.

use super::readers::{enter_as, hold_as, join, wait_as};
use super::*;

const FIRST: u64 = GUARDS;
const SECOND: u64 = GUARDS + 1;

fn drop_guard(queue: &LocalQueue, hold: &Arc<Hold>) -> Unlocked {
    queue.unlock_dropped(hold, NO_LINGER)
}

#[test]
fn a_thread_and_a_guard_exclude_each_other() {
    let queue = queue();
    let owned = held(&queue, "k", FIRST, 0, 0);
    for number in [1, SECOND] {
        let entered = enter(&queue, "k", number);
        assert!(entered.own.is_none() && entered.claim.is_none(), "{number}");
    }
    assert_eq!(drop_guard(&queue, &owned), Unlocked::Idle);
    assert!(matches!(
        owned.grant().next_step(Moment::now()),
        Step::Release(_)
    ));
    let threads = held(&queue, "k", 1, 0, 0);
    assert!(enter(&queue, "k", FIRST).claim.is_none());
    unlock(&queue, &threads, NO_LINGER);
}

#[test]
fn the_watchdog_releases_what_a_dropped_guard_held_at_once() {
    let queue = queue();
    let owned = held(&queue, "k", FIRST, 0, 0);
    let grant = owned.grant();
    assert_eq!(drop_guard(&queue, &owned), Unlocked::Idle);
    assert!(grant.is_due_earlier(), "the watchdog is woken");
    assert_eq!(grant.schedule().due, Moment::ZERO);
    assert!(matches!(grant.next_step(Moment::now()), Step::Release(_)));
    assert!(queue.is_empty());
    assert_eq!(drop_guard(&queue, &owned), Unlocked::NotHeld);
}

/// Other clients may wait for the lock.
#[test]
fn a_thread_that_comes_after_the_drop_releases_the_lock_before_it_requests_it() {
    let queue = queue();
    let owned = held(&queue, "k", FIRST, 0, 0);
    assert_eq!(drop_guard(&queue, &owned), Unlocked::Idle);
    let came = claim(&queue, "k", 1).take(renewed(), &PLAIN);
    assert!(matches!(came, CameWith::Unsuited(_)), "{came:?}");
    assert!(matches!(
        owned.grant().next_step(Moment::now()),
        Step::Forget
    ));
}

#[test]
fn a_client_that_lingers_keeps_what_a_dropped_guard_held() {
    let queue = queue();
    let owned = held(&queue, "k", FIRST, 0, 0);
    let linger = Duration::from_secs(60);
    assert_eq!(queue.unlock_dropped(&owned, linger), Unlocked::Idle);
    let grant = owned.grant();
    assert!(matches!(grant.next_step(Moment::now()), Step::Wait));
}

#[test]
fn a_thread_that_waits_gets_what_a_dropped_guard_held() {
    let queue = queue();
    let owned = held(&queue, "k", FIRST, 0, 0);
    let (second, third) = (wait(&queue, "k", 2), wait(&queue, "k", SECOND));
    assert_eq!(drop_guard(&queue, &owned), Unlocked::HandedOver);
    assert!(second.is_woken() && !third.is_woken());
    let hold = second.hold();
    assert!(Arc::ptr_eq(&hold.grant(), &owned.grant()));
    // And a guard gets that of a thread.
    assert_eq!(unlock(&queue, &hold, NO_LINGER), Unlocked::HandedOver);
    third.hold().check().unwrap();
}

#[test]
fn a_thread_that_the_grant_of_a_dropped_guard_does_not_suit_releases_it() {
    let queue = queue();
    let owned = held(&queue, "k", FIRST, 0, 0);
    let fixed = terms(LEASE, Renewals::None);
    let waiting = wait_with(&queue, "k", 2, fixed);
    assert_eq!(drop_guard(&queue, &owned), Unlocked::Idle);
    assert!(waiting.is_woken());
    let came = waiting.claim().unwrap().take(fixed, &PLAIN);
    assert!(matches!(came, CameWith::Unsuited(_)), "{came:?}");
    assert!(matches!(
        owned.grant().next_step(Moment::now()),
        Step::Forget
    ));
}

#[test]
fn a_lost_hold_is_kept_until_its_guard_is_dropped() {
    let queue = queue();
    let owned = held(&queue, "k", FIRST, 0, 0);
    owned.lose(LostReason::Deleted);
    assert!(enter(&queue, "k", FIRST).own.is_some());
    let reason = LostReason::Deleted;
    assert_eq!(
        drop_guard(&queue, &owned),
        Unlocked::Lost { reason, last: true }
    );
    queue.close(&owned, None);
    assert!(queue.is_empty());
}

#[test]
fn an_owned_reader_shares_its_grant_with_no_other() {
    let queue = queue();
    let threads = hold_as(&queue, 1, true);
    let owned = hold_as(&queue, FIRST, true);
    assert!(!Arc::ptr_eq(&owned.grant(), &threads.grant()));
    let second = join(&queue, 2);
    assert!(Arc::ptr_eq(&second.grant(), &threads.grant()));
    // Behind a writer, the thread joins and the guard does not.
    let writer = wait_as(&queue, 3, false);
    let (third, guard) = (wait_as(&queue, 4, true), wait_as(&queue, SECOND, true));
    assert!(queue.leave(&writer.waiter).is_none());
    assert!(third.is_woken() && guard.is_woken());
    assert!(Arc::ptr_eq(&third.hold().grant(), &threads.grant()));
    let came = guard.claim().unwrap().take(renewed(), &READ);
    assert!(matches!(came, CameWith::Nothing), "{came:?}");
}

#[test]
fn a_writer_gets_the_ticket_when_the_guard_of_the_last_reader_is_dropped() {
    let queue = queue();
    let readers = [FIRST, SECOND].map(|number| hold_as(&queue, number, true));
    let writer = wait_as(&queue, 1, false);
    assert!(enter_as(&queue, 2, true).claim.is_none());
    assert_eq!(drop_guard(&queue, &readers[0]), Unlocked::Idle);
    assert!(!writer.is_woken());
    assert_eq!(drop_guard(&queue, &readers[1]), Unlocked::Idle);
    assert!(writer.is_woken());
    let came = writer.claim().unwrap().take(renewed(), &WRITE);
    assert!(matches!(came, CameWith::Unsuited(_)), "{came:?}");
    let first = readers[0].grant();
    assert!(matches!(first.next_step(Moment::now()), Step::Release(_)));
}
