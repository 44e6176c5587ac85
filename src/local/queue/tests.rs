//! What the tests of the queue share, and the tests of tickets.

mod adopted;
mod hand_over;
mod idle;
mod lost;
mod owned;
mod permits;
mod readers;
mod sharing;

use super::*;
use crate::base::OwnerId;
use crate::base::parker::{Parker, pair};
use crate::error::LostReason;
use crate::lease::Renewals;
use crate::lease::Terms;
use crate::local::grant::{Unlocked, Unlocks};
use crate::local::tests::{LEASE, adopted_grant, grant, hold, lock, millis_ago, renewed, terms};
use crate::protocol::{FENCED, PLAIN, READ, WRITE};
use crate::watchdog::{Renew, Step};
use std::time::Duration;

const NO_LINGER: Duration = Duration::ZERO;

/// From this number on, a holder is an owned guard.
const GUARDS: u64 = 1_000_000;

fn thread(number: u64) -> HolderId {
    match number < GUARDS {
        true => HolderId::thread(number),
        false => HolderId::guard(number),
    }
}

fn queue() -> Arc<LocalQueue> {
    Arc::default()
}

fn enter(queue: &Arc<LocalQueue>, name: &str, number: u64) -> Entered {
    queue.enter(&lock(name), thread(number), false, Moment::now())
}

/// The ticket of this lock, which is free.
fn claim(queue: &Arc<LocalQueue>, name: &str, number: u64) -> Claim {
    let entered = enter(queue, name, number);
    assert!(entered.own.is_none());
    entered.claim.expect("the ticket is free")
}

/// A thread that waits for a lock.
struct Waiting {
    queue: Arc<LocalQueue>,
    waiter: Arc<Waiter>,
    parker: Parker,
}

fn wait_for(
    queue: &Arc<LocalQueue>,
    name: &str,
    number: u64,
    terms: Terms,
    kind: &'static Kind,
) -> Waiting {
    let (unparker, parker) = pair();
    let wanted = Wanted {
        lock: lock(name),
        terms,
        kind,
        also: Vec::new(),
    };
    let waiter = Waiter::new(wanted, thread(number), &unparker);
    assert!(queue.enqueue(&waiter).is_none(), "it waits");
    Waiting {
        queue: Arc::clone(queue),
        waiter,
        parker,
    }
}

fn wait_with(queue: &Arc<LocalQueue>, name: &str, number: u64, terms: Terms) -> Waiting {
    wait_for(queue, name, number, terms, &PLAIN)
}

fn wait(queue: &Arc<LocalQueue>, name: &str, number: u64) -> Waiting {
    wait_with(queue, name, number, renewed())
}

impl Waiting {
    fn is_woken(&self) -> bool {
        self.parker.sleep(Duration::ZERO)
    }

    fn claim(&self) -> Option<Claim> {
        self.queue.claim_of(&self.waiter)
    }

    /// The hold that was handed over to the thread.
    fn hold(&self) -> Arc<Hold> {
        let mut claim = self.claim().expect("it has the ticket");
        let wanted = &self.waiter.wanted;
        match claim.take(wanted.terms, wanted.kind) {
            CameWith::HandedOver(hold) => hold,
            other => panic!("{other:?}"),
        }
    }
}

/// A hold of a thread on this lock, with these tokens, granted some milliseconds ago.
fn held(queue: &Arc<LocalQueue>, name: &str, number: u64, age: u64, tokens: u64) -> Arc<Hold> {
    let claim = claim(queue, name, number);
    let tokens = 7..7 + tokens;
    let grant = grant(queue, name, renewed(), millis_ago(age), tokens);
    let hold = grant.first_hold(thread(number));
    claim.keep(&hold);
    hold
}

fn unlock(queue: &LocalQueue, hold: &Arc<Hold>, linger: Duration) -> Unlocked {
    queue.unlock(hold, Unlocks::Newest, linger)
}

#[test]
fn the_ticket_is_passed_on_in_order() {
    let queue = queue();
    let first = claim(&queue, "k", 1);
    let (second, third) = (wait(&queue, "k", 2), wait(&queue, "k", 3));
    // A later thread does not overtake them.
    assert!(enter(&queue, "k", 4).claim.is_none());
    drop(first);
    assert!(second.is_woken() && !third.is_woken());
    assert!(third.claim().is_none());
    drop(second.claim());
    assert!(third.is_woken());
    drop(third.claim());
    assert!(
        queue.is_empty(),
        "nothing is left of a lock that no thread wants"
    );
}

#[test]
fn a_thread_that_leaves_makes_room_for_those_behind_it() {
    let queue = queue();
    let read = readers::hold_as(&queue, 1, true);
    let writer = readers::wait_as(&queue, 2, false);
    let behind = readers::wait_as(&queue, 3, true);
    assert!(queue.leave(&writer.waiter).is_none());
    assert!(behind.is_woken(), "it reads, too");
    drop(behind.claim());
    unlock(&queue, &read, NO_LINGER);
    queue.close(&read, None);
    assert!(queue.is_empty());
}

#[test]
fn the_next_thread_inherits_the_time_without_a_reply() {
    let queue = queue();
    let first = claim(&queue, "k", 1);
    let (since, holds) = first.begin_request();
    assert_eq!(holds, 1);
    let (second, third) = (wait(&queue, "k", 2), wait(&queue, "k", 3));
    assert_eq!(queue.unanswered_since(&lock("k")), Some(since));
    drop(first);
    let second = second.claim().unwrap();
    assert_eq!(
        second.begin_request(),
        (since, 2),
        "the third waits behind it"
    );
    second.replied();
    assert_eq!(queue.unanswered_since(&lock("k")), None);
    drop(second);
    assert!(third.claim().unwrap().begin_request().0 > since);
}

#[test]
fn a_thread_that_waits_for_a_reply_is_woken_by_it() {
    type Reply = fn(Claim, &Arc<Hold>);
    let replies: [Reply; 2] = [
        |claim, _| claim.replied(),
        |claim, hold| drop(claim.keep(hold)),
    ];
    for reply in replies {
        let queue = queue();
        let first = claim(&queue, "k", 1);
        let hold = hold(&queue, thread(1));
        let (second, third) = (wait(&queue, "k", 2), wait(&queue, "k", 3));
        queue.await_reply(&third.waiter);
        reply(first, &hold);
        assert!(third.is_woken());
        assert!(queue.leave(&third.waiter).is_none());
        queue.close(&hold, None);
        assert!(second.is_woken());
        drop(second.claim());
        assert!(queue.is_empty());
    }
}

#[test]
fn a_lost_grant_passes_its_ticket_on_and_its_hold_is_kept_until_it_is_unlocked() {
    let queue = queue();
    let hold = held(&queue, "k", 1, 0, 0);
    assert!(enter(&queue, "k", 1).own.is_some());
    assert!(enter(&queue, "k", 2).claim.is_none());
    hold.lose(LostReason::Deleted);
    let second = claim(&queue, "k", 2);
    assert!(enter(&queue, "k", 1).own.is_some());
    let reason = LostReason::Deleted;
    assert_eq!(
        unlock(&queue, &hold, NO_LINGER),
        Unlocked::Lost { reason, last: true }
    );
    queue.close(&hold, None);
    assert!(enter(&queue, "k", 1).own.is_none());
    drop(second);
    assert!(queue.is_empty());
}

#[test]
fn entries_that_only_know_of_other_clients_are_swept() {
    let queue = queue();
    for at in 0..10 * FEW {
        let name = format!("{at}");
        let hold = held(&queue, &name, 1, 0, 0);
        unlock(&queue, &hold, NO_LINGER);
        let released = Verdict::Done {
            listeners: Some(1),
            is_called: false,
        };
        queue.close(&hold, Some(released));
    }
    assert!(queue.0.lock().entries.len() <= 2 * FEW);
}
