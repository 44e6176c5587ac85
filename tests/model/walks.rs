//! Ways in which a late copy spoils something if retries repeat the name of the first copy, step by
//! step, and how they end with the names that the library gives.

use stateright::Model;

use crate::promises::{COUNTS, TOLD};
use crate::protocol::{Planted, Protocol};
use crate::state::State;
use crate::steps::Machine;
use crate::steps::Step::{
    self, Answer, AnswerDog, AskAgain, Cut, Delete, GiveUp, Lock, Nest, Renew, Run, RunDog,
    RunLate, Settle, Tick, Unlock,
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

/// What is after these steps of one client. A late command that is in vain is dropped by the model, and
/// its step left out here.
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

/// Asserts that the counts disagree after these steps if retries repeat the name, and only then.
fn counts_agree_after(steps: &[&[Step]]) {
    assert!(!holds(COUNTS, steps, Some(Planted::RetriesRepeatName)));
    assert!(holds(COUNTS, steps, None));
}

const LOCKED: &[Step] = &[Lock(0), Run(0), Answer(0)];
const NESTED: &[Step] = &[Nest(0), Run(0), Answer(0)];
/// A reply to this one is heard at once.
const UNLOCKED: &[Step] = &[Unlock(0), Run(0)];
const SETTLED: &[Step] = &[Settle(0), RunDog(0), AnswerDog(0)];

#[test]
fn a_late_nested_acquire_does_not_raise_the_count_again() {
    let retried = [Nest(0), AskAgain(0), Run(0), Answer(0)];
    counts_agree_after(&[LOCKED, &retried, UNLOCKED, &[RunLate(0)]]);
}

#[test]
fn a_late_inner_unlock_does_not_lower_the_count_again() {
    let retried = [Unlock(0), AskAgain(0), Run(0)];
    counts_agree_after(&[LOCKED, NESTED, &retried, NESTED, &[RunLate(0)]]);
}

#[test]
fn an_inner_unlock_that_was_given_up_does_not_lower_a_later_count() {
    let given_up = [Unlock(0), GiveUp(0)];
    counts_agree_after(&[LOCKED, NESTED, &given_up, NESTED, &[RunLate(0)]]);
}

#[test]
fn a_late_acquire_does_not_revive_a_hold_that_was_deleted() {
    let retried = [Lock(0), AskAgain(0), Run(0), Answer(0)];
    let renewed = [Delete, RunLate(0), Tick, Renew(0), RunDog(0)];
    let planted = Some(Planted::RetriesRepeatName);
    assert!(!holds(TOLD, &[&retried, &renewed, &[Tick]], planted));
    let told = walk(&[&retried, &renewed, &[AnswerDog(0)]], None);
    assert!(told.clients[0].hold.is_none());
}

/// What no protocol can promise: nobody knows whether a call that was given up was done.
#[test]
fn a_nested_acquire_that_was_given_up_may_be_counted_until_the_next_answer() {
    let given_up = [Nest(0), Run(0), GiveUp(0)];
    assert_eq!(count(&[LOCKED, &given_up]), Some(2));
    assert_eq!(count(&[LOCKED, &given_up, NESTED, UNLOCKED]), Some(1));
    assert_eq!(count(&[LOCKED, &given_up, SETTLED]), Some(1));
}

#[test]
fn an_inner_unlock_that_was_given_up_may_not_be_counted_until_the_next_answer() {
    let given_up = [Unlock(0), GiveUp(0), Cut(0)];
    assert_eq!(count(&[LOCKED, NESTED, &given_up]), Some(2));
    let again = [LOCKED, NESTED, &given_up, NESTED, UNLOCKED];
    assert_eq!(count(&again), Some(1));
    assert_eq!(count(&[LOCKED, NESTED, &given_up, SETTLED]), Some(1));
}
