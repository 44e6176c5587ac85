//! Holds that do not exclude each other, and their order beside those that do.

use super::*;
use crate::lease::Terms;
use crate::local::tests::{read_grant, write_grant};

/// A thread that enters to read or to write.
pub(super) fn enter_as(queue: &Arc<LocalQueue>, number: u64, is_shared: bool) -> Entered {
    queue.enter(&lock("k"), thread(number), is_shared, Moment::now())
}

/// A thread that waits to read or to write.
pub(super) fn wait_as(queue: &Arc<LocalQueue>, number: u64, is_shared: bool) -> Waiting {
    let kind = if is_shared { &READ } else { &WRITE };
    wait_for(queue, "k", number, renewed(), kind)
}

/// What a claim of Redis' grant becomes.
fn granted(queue: &Arc<LocalQueue>, claim: Claim, number: u64, terms: Terms) -> Arc<Hold> {
    let grant = match claim.is_shared {
        true => read_grant(queue, terms, Moment::now()),
        false => write_grant(queue, terms, Moment::now()),
    };
    let hold = grant.first_hold(thread(number));
    claim.keep(&hold);
    hold
}

pub(super) fn hold_as(queue: &Arc<LocalQueue>, number: u64, is_shared: bool) -> Arc<Hold> {
    let claim = enter_as(queue, number, is_shared)
        .claim
        .expect("it is free");
    granted(queue, claim, number, renewed())
}

/// A reader that shares the grant of others.
pub(super) fn join(queue: &Arc<LocalQueue>, number: u64) -> Arc<Hold> {
    let mut claim = enter_as(queue, number, true)
        .claim
        .expect("no writer is there");
    match claim.take(renewed(), &READ) {
        CameWith::HandedOver(hold) => hold,
        other => panic!("{other:?}"),
    }
}

#[test]
fn readers_share_a_grant_and_the_last_one_releases_it() {
    let queue = queue();
    let first = hold_as(&queue, 1, true);
    let (second, third) = (join(&queue, 2), join(&queue, 3));
    assert!(Arc::ptr_eq(&first.grant(), &second.grant()));
    for hold in [&first, &third] {
        assert_eq!(unlock(&queue, hold, NO_LINGER), Unlocked::Shared);
        assert_eq!(unlock(&queue, hold, NO_LINGER), Unlocked::NotHeld);
    }
    second.check().unwrap();
    let again = join(&queue, 1);
    assert!(Arc::ptr_eq(&first.grant(), &again.grant()));
    assert_eq!(unlock(&queue, &second, NO_LINGER), Unlocked::Shared);
    assert_eq!(unlock(&queue, &again, NO_LINGER), Unlocked::Last);
    // While Redis is asked to release it, no thread joins it, and no writer gets the ticket.
    let writer = wait_as(&queue, 4, false);
    queue.close(&again, None);
    assert!(writer.is_woken());
    drop(writer.claim());
    assert!(queue.is_empty());
}

/// However often the thread changes that has read for the longest time.
#[test]
fn a_grant_that_readers_share_is_confirmed_from_its_first_hold_on() {
    let queue = queue();
    let first = hold_as(&queue, 1, true);
    let (second, third) = (join(&queue, 2), join(&queue, 3));
    let since = first.grant().schedule().unconfirmed;
    for hold in [&first, &second] {
        assert_eq!(unlock(&queue, hold, NO_LINGER), Unlocked::Shared);
        assert_eq!(third.grant().schedule().unconfirmed, since);
    }
}

#[test]
fn a_writer_that_waits_is_not_overtaken_by_readers() {
    let queue = queue();
    let (first, second) = (hold_as(&queue, 1, true), join(&queue, 2));
    let writer = wait_as(&queue, 3, false);
    let readers = [wait_as(&queue, 4, true), wait_as(&queue, 5, true)];
    assert!(enter_as(&queue, 6, true).claim.is_none());
    // Nested levels wait for no writer.
    assert!(enter_as(&queue, 1, true).own.is_some());
    assert_eq!(unlock(&queue, &first, NO_LINGER), Unlocked::Shared);
    assert!(!writer.is_woken(), "another reader is there");
    assert_eq!(unlock(&queue, &second, NO_LINGER), Unlocked::Last);
    assert!(!writer.is_woken(), "the release is under way");
    queue.close(&second, None);
    assert!(writer.is_woken() && readers.iter().all(|reader| !reader.is_woken()));
    let written = granted(&queue, writer.claim().unwrap(), 3, renewed());
    assert_eq!(unlock(&queue, &written, NO_LINGER), Unlocked::Last);
    queue.close(&written, None);
    // The first one has the ticket, and the other one joins its grant.
    assert!(readers[0].is_woken() && !readers[1].is_woken());
    let read = granted(&queue, readers[0].claim().unwrap(), 4, renewed());
    assert!(readers[1].is_woken());
    let CameWith::HandedOver(joined) = readers[1].claim().unwrap().take(renewed(), &READ) else {
        panic!("it joins the grant");
    };
    assert!(Arc::ptr_eq(&joined.grant(), &read.grant()));
    unlock(&queue, &read, NO_LINGER);
    unlock(&queue, &joined, NO_LINGER);
    queue.close(&joined, None);
    assert!(queue.is_empty());
}

/// The write lock is not handed over to a reader, nor beside a reader.
#[test]
fn a_writer_can_read_too_and_keeps_other_threads_out_meanwhile() {
    let queue = queue();
    let written = hold_as(&queue, 1, false);
    assert!(enter_as(&queue, 2, true).claim.is_none());
    let entered = enter_as(&queue, 1, true);
    assert!(entered.own.is_none());
    assert!(Arc::ptr_eq(&entered.other.unwrap(), &written));
    let mut claim = entered.claim.expect("it has the ticket");
    assert!(matches!(claim.take(renewed(), &READ), CameWith::Nothing));
    let read = granted(&queue, claim, 1, renewed());
    // The other claim of the same thread was dropped, and nothing was given back.
    drop(enter_as(&queue, 1, true));
    let (reader, writer) = (wait_as(&queue, 2, true), wait_as(&queue, 3, false));
    assert!(!reader.is_woken());
    assert_eq!(unlock(&queue, &written, NO_LINGER), Unlocked::Last);
    queue.close(&written, None);
    assert!(reader.is_woken() && !writer.is_woken());
    drop(reader.hold());
    // A reader cannot become a writer.
    assert!(
        enter_as(&queue, 1, false)
            .other
            .is_some_and(|other| other.is_shared())
    );
    unlock(&queue, &read, NO_LINGER);
    assert!(!writer.is_woken());
}

/// The write lock is lost while its thread requests the read lock, and no thread waits.
#[test]
fn a_reader_whose_write_lock_is_lost_meanwhile_releases_its_grant() {
    let queue = queue();
    let written = hold_as(&queue, 1, false);
    let claim = enter_as(&queue, 1, true).claim.expect("it has the ticket");
    written.grant().lose(LostReason::Deleted);
    let read = granted(&queue, claim, 1, renewed());
    assert!(enter_as(&queue, 2, false).claim.is_none());
    assert_eq!(unlock(&queue, &read, NO_LINGER), Unlocked::Last);
    queue.close(&read, None);
    unlock(&queue, &written, NO_LINGER);
    queue.close(&written, None);
    assert!(queue.is_empty());
}

#[test]
fn a_grant_is_joined_only_for_a_while_and_only_with_a_lease_that_it_keeps() {
    let queue = queue();
    let claim = enter_as(&queue, 1, true).claim.unwrap();
    let old = read_grant(&queue, renewed(), millis_ago(200));
    let old = old.first_hold(thread(1));
    claim.keep(&old);
    let mut claim = enter_as(&queue, 2, true).claim.unwrap();
    assert!(
        matches!(claim.take(renewed(), &READ), CameWith::Nothing),
        "too old"
    );
    let new = granted(&queue, claim, 2, renewed());
    assert!(!Arc::ptr_eq(&old.grant(), &new.grant()));
    for other in [
        terms(LEASE, Renewals::None),
        terms(LEASE, Renewals::Left(5)),
        terms(LEASE + 1, Renewals::Unlimited),
    ] {
        let mut claim = enter_as(&queue, 3, true).claim.unwrap();
        assert!(
            matches!(claim.take(other, &READ), CameWith::Nothing),
            "{other:?}"
        );
    }
    let mut claim = enter_as(&queue, 3, true).claim.unwrap();
    let shorter = terms(LEASE / 2, Renewals::Unlimited);
    assert!(matches!(
        claim.take(shorter, &READ),
        CameWith::HandedOver(_)
    ));
}

/// A grant that a reader gets while it gives up is not lost.
#[test]
fn a_share_of_a_reader_that_leaves_is_given_back() {
    for last in [false, true] {
        let queue = queue();
        let written = hold_as(&queue, 1, false);
        let readers = [2, 3].map(|number| wait_as(&queue, number, true));
        unlock(&queue, &written, NO_LINGER);
        queue.close(&written, None);
        let first = granted(&queue, readers[0].claim().unwrap(), 2, renewed());
        let mut claim = queue.leave(&readers[1].waiter).expect("it has got a share");
        let writer = wait_as(&queue, 4, false);
        if last {
            assert_eq!(unlock(&queue, &first, NO_LINGER), Unlocked::Shared);
        }
        let idle = claim.give_up();
        assert_eq!(usize::from(idle.is_some()), usize::from(last));
        if let Some(grant) = idle {
            // The watchdog releases it, or the writer.
            assert!(matches!(grant.next_step(Moment::now()), Step::Release(_)));
        }
        if !last {
            assert_eq!(unlock(&queue, &first, NO_LINGER), Unlocked::Last);
            queue.close(&first, None);
        }
        assert!(writer.is_woken());
        drop(writer.claim());
        assert!(queue.is_empty());
    }
}

/// The share of a reader that leaves is idle while another reader has a newer grant, which becomes
/// idle, too.
#[test]
fn every_idle_grant_is_released() {
    let queue = queue();
    let claim = enter_as(&queue, 1, true).claim.unwrap();
    let old = read_grant(&queue, renewed(), millis_ago(40));
    let old = old.first_hold(thread(1));
    claim.keep(&old);
    let joined = join(&queue, 2);
    let linger = Duration::from_secs(60);
    let new = {
        let claim = enter_as(&queue, 3, true).claim.unwrap();
        granted(&queue, claim, 3, renewed())
    };
    assert_eq!(unlock(&queue, &old, linger), Unlocked::Shared);
    let idle = queue.change(|locks| locks.pass_on_or_make_idle(&joined));
    assert!(idle.is_some());
    assert_eq!(unlock(&queue, &new, linger), Unlocked::Idle);
    let later = Moment::now().after(linger * 2);
    for hold in [&old, &new] {
        assert!(matches!(hold.grant().next_step(later), Step::Release(_)));
    }
    assert!(queue.is_empty());
}

/// It uses the ticket of its write hold. Whether Redis replies to it says nothing about that hold.
#[test]
fn a_request_for_a_read_lock_by_the_writer_leaves_its_ticket_answered() {
    let queue = queue();
    let _write = hold_as(&queue, 1, false);
    let claim = enter_as(&queue, 1, true).claim.expect("it writes");
    let (since, _) = claim.begin_request();
    assert!(since <= Moment::now());
    assert_eq!(queue.unanswered_since(&lock("k")), None);
}

/// A hold of a reader and a hold of a writer are the same part of the turn of their client.
#[test]
fn a_reader_beside_a_waiting_writer_owes_others_a_part_of_a_hold() {
    let queue = queue();
    let claim = enter_as(&queue, 1, true).claim.unwrap();
    claim.note_passed(Some("a thread of Redisson"));
    let writer = wait_as(&queue, 2, false);
    let read = granted(&queue, claim, 1, renewed());
    assert_eq!(unlock(&queue, &read, NO_LINGER), Unlocked::Last);
    let released = Verdict::Done {
        listeners: Some(1),
        is_called: false,
    };
    queue.close(&read, Some(released));
    assert!(writer.claim().unwrap().take_pause().is_none());
}
