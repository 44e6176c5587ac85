//! Step by step: how a late copy breaks a promise if retries carry the owner id of the first copy,
//! and that it does not with the ids that the library assigns.

use stateright::Model;

use crate::promises::{COUNTS, NOTIFIED};
use crate::protocol::{Planted, Protocol};
use crate::state::State;
use crate::steps::Machine;
use crate::steps::Step::{
    self, Cut, Delete, GiveUp, Lock, Nest, Receive, Renew, Retry, Run, RunLate, RunWatchdog, Tick,
    Unlock, WatchdogReceive, WriteCount,
};

fn machine(planted: Option<Planted>) -> Machine {
    Machine {
        protocol: Protocol {
            planted,
            deletions: 1,
            ..Protocol::library(1)
        },
        symmetric: false,
    }
}

/// The state after these steps. The model drops late commands that change nothing, so their steps
/// are skipped here.
fn walk(steps: &[&[Step]], planted: Option<Planted>) -> State {
    let machine = machine(planted);
    let start = machine.init_states().remove(0);
    steps.concat().into_iter().fold(start, |state, step| {
        if matches!(step, RunLate(_)) && state.late.is_empty() {
            return state;
        }
        let mut possible = Vec::new();
        machine.actions(&state, &mut possible);
        assert!(
            possible.contains(&step),
            "{step:?} is not possible in {state:#?}"
        );
        machine
            .next_state(&state, step)
            .expect("each step changes something")
    })
}

fn holds(promise: &'static str, steps: &[&[Step]], planted: Option<Planted>) -> bool {
    let (machine, end) = (machine(planted), walk(steps, planted));
    (machine.property(promise).condition)(&machine, &end)
}

/// The count in Redis.
fn count(steps: &[&[Step]]) -> Option<u8> {
    walk(steps, None).key.map(|key| key.count)
}

/// Asserts that the counts disagree after these steps if retries repeat the owner id, and only
/// then.
fn counts_agree_after(steps: &[&[Step]]) {
    assert!(!holds(COUNTS, steps, Some(Planted::RetriesRepeatId)));
    assert!(holds(COUNTS, steps, None));
}

const LOCKED: &[Step] = &[Lock(0), Run(0), Receive(0)];
const NESTED: &[Step] = &[Nest(0), Run(0), Receive(0)];
/// The reply to this command is received at once.
const UNLOCKED: &[Step] = &[Unlock(0), Run(0)];
const COUNT_WRITTEN: &[Step] = &[WriteCount(0), RunWatchdog(0), WatchdogReceive(0)];

#[test]
fn a_late_nested_acquire_does_not_raise_the_count_again() {
    let retried = [Nest(0), Retry(0), Run(0), Receive(0)];
    counts_agree_after(&[LOCKED, &retried, UNLOCKED, &[RunLate(0)]]);
}

#[test]
fn a_late_inner_unlock_does_not_lower_the_count_again() {
    let retried = [Unlock(0), Retry(0), Run(0)];
    counts_agree_after(&[LOCKED, NESTED, &retried, NESTED, &[RunLate(0)]]);
}

#[test]
fn an_abandoned_inner_unlock_does_not_lower_a_later_count() {
    let abandoned = [Unlock(0), GiveUp(0)];
    counts_agree_after(&[LOCKED, NESTED, &abandoned, NESTED, &[RunLate(0)]]);
}

#[test]
fn a_late_acquire_does_not_revive_a_hold_that_was_deleted() {
    let retried = [Lock(0), Retry(0), Run(0), Receive(0)];
    let renewed = [Delete, RunLate(0), Tick, Renew(0), RunWatchdog(0)];
    let planted = Some(Planted::RetriesRepeatId);
    assert!(!holds(NOTIFIED, &[&retried, &renewed, &[Tick]], planted));
    let notified = walk(&[&retried, &renewed, &[WatchdogReceive(0)]], None);
    assert!(notified.clients[0].hold.is_none());
}

/// A limit of every protocol: whether an abandoned call was executed is unknown until the next
/// reply.
#[test]
fn an_abandoned_nested_acquire_may_be_counted_until_the_next_reply() {
    let abandoned = [Nest(0), Run(0), GiveUp(0)];
    assert_eq!(count(&[LOCKED, &abandoned]), Some(2));
    assert_eq!(count(&[LOCKED, &abandoned, NESTED, UNLOCKED]), Some(1));
    assert_eq!(count(&[LOCKED, &abandoned, COUNT_WRITTEN]), Some(1));
}

#[test]
fn an_abandoned_inner_unlock_may_not_be_counted_until_the_next_reply() {
    let abandoned = [Unlock(0), GiveUp(0), Cut(0)];
    assert_eq!(count(&[LOCKED, NESTED, &abandoned]), Some(2));
    let again = [LOCKED, NESTED, &abandoned, NESTED, UNLOCKED];
    assert_eq!(count(&again), Some(1));
    assert_eq!(count(&[LOCKED, NESTED, &abandoned, COUNT_WRITTEN]), Some(1));
}
