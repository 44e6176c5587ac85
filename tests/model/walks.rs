//! Ways in which a late copy spoils something in the library for good, step by step. Who mends one
//! of them sees its walk fail.

use stateright::Model;

use crate::promises::{COUNTS, TOLD};
use crate::protocol::Protocol;
use crate::steps::Machine;
use crate::steps::Step::{
    self, Answer, AskAgain, Cut, Delete, GiveUp, Lock, Nest, Renew, Run, RunDog, RunLate, Tick,
    Unlock,
};

/// Whether the promise holds after these steps of one client.
fn holds(promise: &'static str, steps: &[Step]) -> bool {
    let machine = Machine {
        protocol: Protocol {
            deletions: 1,
            ..Protocol::library(1)
        },
        symmetric: false,
    };
    let start = machine.init_states().remove(0);
    let end = steps.iter().fold(start, |state, step| {
        let mut possible = Vec::new();
        machine.actions(&state, &mut possible);
        assert!(
            possible.contains(step),
            "{step:?} is not possible in {state:#?}"
        );
        machine
            .next_state(&state, *step)
            .expect("each step changes something")
    });
    (machine.property(promise).condition)(&machine, &end)
}

const LOCKED: [Step; 3] = [Lock(0), Run(0), Answer(0)];
const NESTED: [Step; 3] = [Nest(0), Run(0), Answer(0)];
/// A reply to this one is heard at once.
const UNLOCKED: [Step; 2] = [Unlock(0), Run(0)];

#[test]
fn a_late_nested_acquire_raises_the_count_again() {
    let retried = [Nest(0), AskAgain(0), Run(0), Answer(0)];
    let until = [&LOCKED[..], &retried, &UNLOCKED].concat();
    assert!(holds(COUNTS, &until));
    assert!(!holds(COUNTS, &[&until[..], &[RunLate(0)]].concat()));
}

#[test]
fn a_nested_acquire_that_was_given_up_is_counted_if_its_connection_is_cut() {
    let given_up = [Nest(0), Run(0), GiveUp(0)];
    let until = [&LOCKED[..], &given_up].concat();
    assert!(holds(COUNTS, &[&until[..], &[RunLate(0)]].concat()));
    assert!(!holds(COUNTS, &[&until[..], &[Cut(0)]].concat()));
}

#[test]
fn an_inner_unlock_that_was_given_up_is_not_counted_if_its_connection_is_cut() {
    let given_up = [Unlock(0), GiveUp(0), Cut(0)];
    assert!(!holds(COUNTS, &[&LOCKED[..], &NESTED, &given_up].concat()));
}

#[test]
fn a_late_inner_unlock_lowers_the_count_again() {
    let retried = [Unlock(0), AskAgain(0), Run(0)];
    let until = [&LOCKED[..], &NESTED, &retried, &NESTED].concat();
    assert!(holds(COUNTS, &until));
    assert!(!holds(COUNTS, &[&until[..], &[RunLate(0)]].concat()));
}

#[test]
fn what_sets_a_given_up_nested_acquire_right_can_come_after_another_one() {
    let given_up = [Nest(0), GiveUp(0)];
    let until = [&LOCKED[..], &given_up, &NESTED].concat();
    assert!(!holds(
        COUNTS,
        &[&until[..], &[RunLate(0), RunLate(0)]].concat()
    ));
}

#[test]
fn a_late_acquire_revives_a_hold_that_was_deleted() {
    let retried = [Lock(0), AskAgain(0), Run(0), Answer(0)];
    let revived = [Delete, RunLate(0), Tick, Renew(0), RunDog(0)];
    let until = [&retried[..], &revived].concat();
    assert!(holds(TOLD, &until));
    assert!(!holds(TOLD, &[&until[..], &[Tick]].concat()));
}
