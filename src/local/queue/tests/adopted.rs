//! Holds that were granted without the ticket.

use super::*;

const GUARD: u64 = GUARDS;

/// An exclusive hold of a guard that was adopted.
fn adopt(queue: &Arc<LocalQueue>) -> Arc<Hold> {
    let hold = adopted_grant(queue, renewed(), Moment::now()).first_hold(thread(GUARD));
    let excluded = queue.claim_without_ticket(&lock("k")).keep(&hold);
    assert!(excluded.is_empty());
    hold
}

fn give_away(queue: &LocalQueue, hold: &Arc<Hold>) -> Unlocked {
    let linger = Duration::from_secs(60);
    queue.unlock(hold, Unlocks::GivesAway(Hold::FIRST_LEVEL), linger)
}

fn release(queue: &LocalQueue, hold: &Arc<Hold>) {
    assert_eq!(queue.unlock_dropped(hold, NO_LINGER), Unlocked::Idle);
}

#[test]
fn a_thread_that_comes_later_waits_for_the_end_of_an_adopted_hold() {
    let queue = queue();
    let adopted = adopt(&queue);
    assert!(enter(&queue, "k", 1).claim.is_none());
    let waiting = wait(&queue, "k", 1);
    assert_eq!(unlock(&queue, &adopted, NO_LINGER), Unlocked::Last);
    assert!(!waiting.is_woken(), "Redis has the lock");
    queue.close(&adopted, None);
    assert!(waiting.is_woken());
    let claim = waiting.claim().expect("it has the ticket");
    assert!(!claim.has_grant(), "it requests the lock");
}

/// Otherwise a client that adopts its own token again and again keeps the lock from other clients.
#[test]
fn an_adopted_grant_is_not_idle_after_its_hold() {
    let queue = queue();
    let adopted = adopt(&queue);
    let linger = Duration::from_secs(60);
    assert_eq!(unlock(&queue, &adopted, linger), Unlocked::Last);
    queue.close(&adopted, None);
    assert!(queue.is_empty());
}

#[test]
fn a_thread_that_requests_the_lock_keeps_its_ticket_and_gets_no_adopted_grant() {
    let queue = queue();
    let mut first = claim(&queue, "k", 1);
    let adopted = adopt(&queue);
    let second = wait(&queue, "k", 2);
    assert!(matches!(first.take(renewed(), &PLAIN), CameWith::Nothing));
    assert_eq!(unlock(&queue, &adopted, NO_LINGER), Unlocked::Last);
    queue.close(&adopted, None);
    assert!(!second.is_woken(), "the first one has the ticket");
    drop(first);
    assert!(second.is_woken() && !second.claim().unwrap().has_grant());
}

/// Redis has lost its data: of two threads of one client, only one has the lock.
#[test]
fn a_grant_shows_that_redis_has_lost_an_adopted_hold() {
    let queue = queue();
    let first = claim(&queue, "k", 1);
    let adopted = adopt(&queue);
    let granted = grant(&queue, "k", renewed(), Moment::now(), 0..0).first_hold(thread(1));
    let excluded = first.keep(&granted);
    assert_eq!(excluded.len(), 1);
    assert_eq!(excluded[0].id(), adopted.grant().id());
    excluded[0].lose(LostReason::Taken);
    assert!(adopted.check().is_err() && granted.check().is_ok());
}

/// Otherwise a thread could take the idle grant after the adopted hold, when another client has the
/// lock.
#[test]
fn an_adopted_hold_shows_that_redis_has_lost_an_idle_grant() {
    let queue = queue();
    let linger = Duration::from_secs(60);
    let idle = held(&queue, "k", 1, 0, 0);
    assert_eq!(unlock(&queue, &idle, linger), Unlocked::Idle);
    let adopted = adopted_grant(&queue, renewed(), Moment::now()).first_hold(thread(GUARD));
    let excluded = queue.claim_without_ticket(&lock("k")).keep(&adopted);
    assert_eq!(excluded.len(), 1);
    assert_eq!(excluded[0].id(), idle.grant().id());
    excluded[0].lose(LostReason::Taken);
    assert_eq!(unlock(&queue, &adopted, linger), Unlocked::Last);
    queue.close(&adopted, None);
    let came = claim(&queue, "k", 2).take(renewed(), &PLAIN);
    assert!(matches!(came, CameWith::Nothing), "{came:?}");
}

/// While an adopted guard holds the lock, the ticket of a thread that gives up stays free.
#[test]
fn the_ticket_passes_to_no_thread_while_a_guard_has_an_adopted_hold() {
    let queue = queue();
    let first = claim(&queue, "k", 1);
    let adopted = adopt(&queue);
    let second = wait(&queue, "k", 2);
    drop(first);
    assert!(!second.is_woken());
    // Nor while it is idle: other clients may wait for it.
    release(&queue, &adopted);
    assert!(second.is_woken());
    let came = second.claim().unwrap().take(renewed(), &PLAIN);
    assert!(matches!(came, CameWith::Unsuited(_)), "{came:?}");
}

#[test]
fn an_adopted_hold_is_known_and_its_loss_wakes_the_next_thread() {
    let queue = queue();
    let adopted = adopt(&queue);
    assert_eq!(queue.current_grants(&lock("k")).len(), 1);
    assert!(queue.hold_of(&lock("k"), thread(GUARD), true).is_none());
    let waiting = wait(&queue, "k", 1);
    adopted.lose(LostReason::Deleted);
    assert!(waiting.is_woken());
    let lost = Unlocked::Lost {
        reason: LostReason::Deleted,
        last: true,
    };
    assert_eq!(unlock(&queue, &adopted, NO_LINGER), lost);
    queue.close(&adopted, None);
    drop(waiting.claim());
    assert!(queue.is_empty());
}

#[test]
fn a_hold_that_is_given_away_is_neither_handed_over_nor_idle() {
    let queue = queue();
    let owned = held(&queue, "k", GUARD, 0, 0);
    let waiting = wait(&queue, "k", 1);
    assert_eq!(give_away(&queue, &owned), Unlocked::Last);
    assert!(!waiting.is_woken());
    let (owner, terms) = owned.grant().given_away().expect("it is held");
    assert_eq!(terms, renewed());
    assert_ne!(owner, *owned.grant().owner());
    queue.close(&owned, None);
    assert!(waiting.is_woken());
}

#[test]
fn a_lost_hold_is_not_given_away() {
    let queue = queue();
    let owned = held(&queue, "k", GUARD, 0, 0);
    owned.lose(LostReason::Expired);
    assert!(matches!(give_away(&queue, &owned), Unlocked::Lost { .. }));
    assert!(owned.grant().given_away().is_none());
}
