//! Locks whose holds do not exclude each other: permits.

use super::*;
use crate::local::grant::{Granted, Turns};
use crate::protocol::PERMITS;

/// A permit that Redis granted to a thread. Its hold has no ticket.
fn permit(queue: &Arc<LocalQueue>, name: &str, number: u64) -> Arc<Hold> {
    let granted = Granted {
        owner: OwnerId::of_permits(1),
        asked: Moment::now(),
        replied: Moment::now(),
        terms: renewed(),
        lease_ends: Moment::now().after(renewed().length()),
        tokens: 0..0,
        turns: Turns::InSlice,
    };
    let (key, observer) = (LockKey::new("", name), Arc::default());
    queue.begin_hold(
        lock(name),
        key,
        &PERMITS,
        granted,
        &observer,
        thread(number),
    )
}

fn release(queue: &Arc<LocalQueue>, hold: &Arc<Hold>) -> Unlocked {
    let level = Unlocks::Level(Hold::FIRST_LEVEL);
    let unlocked = queue.unlock(hold, level, Duration::from_secs(9));
    queue.close(hold, None);
    unlocked
}

#[test]
fn the_loss_of_a_permit_concerns_no_other() {
    let queue = queue();
    let [lost, kept] = [1, 1].map(|number| permit(&queue, "s", number));
    let waiter = claim(&queue, "s", 2);
    lost.lose(LostReason::Deleted);
    assert!(lost.check().is_err());
    kept.check().unwrap();
    assert!(enter(&queue, "s", 3).claim.is_none(), "the ticket stays");
    drop(waiter);
    let reason = LostReason::Deleted;
    let expected = Unlocked::Lost { reason, last: true };
    assert_eq!(release(&queue, &lost), expected);
    assert_eq!(release(&queue, &kept), Unlocked::Last);
    assert!(queue.is_empty());
}

#[test]
fn a_thread_that_waits_is_not_passed_without_a_ticket() {
    let queue = queue();
    let is_passed = || queue.needs_no_ticket(&lock("s"));
    assert!(is_passed(), "no thread waits");
    let first = claim(&queue, "s", 1);
    let second = wait(&queue, "s", 2);
    assert!(!is_passed());
    drop(first);
    assert!(!is_passed(), "the second has the ticket");
    drop(second.queue.claim_of(&second.waiter));
    assert!(is_passed() && queue.is_empty());
}

#[test]
fn a_first_request_needs_the_ticket_while_other_clients_wait() {
    let queue = queue();
    let needs_ticket = || !queue.needs_no_ticket(&lock("s"));
    queue.added_permits(&lock("s"), false);
    assert!(!needs_ticket() && queue.is_empty());
    queue.added_permits(&lock("s"), true);
    assert!(needs_ticket());
    queue.added_permits(&lock("s"), false);
    assert!(!needs_ticket() && queue.is_empty());
}
