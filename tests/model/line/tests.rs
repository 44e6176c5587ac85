//! The line in all states, and each rule broken once.

use std::collections::{HashMap, HashSet};

use stateright::Model;

use super::machine::{Bounds, Planted};
use super::promises::{CALLED, KEPT, ONCE, ONE_TIMER, ORDER, PROMISES};
use super::state::State;
use crate::check::{self, broken_of};

fn library(clients: usize, faults: u8) -> Bounds {
    Bounds {
        planted: None,
        clients,
        has_java: false,
        has_lock_channels: false,
        faults,
    }
}

fn beside_java(clients: usize, faults: u8) -> Bounds {
    Bounds {
        has_java: true,
        ..library(clients, faults)
    }
}

fn with_lock_channels(bounds: Bounds) -> Bounds {
    Bounds {
        has_lock_channels: true,
        ..bounds
    }
}

fn breaks_no_promise(bounds: Bounds) {
    assert_eq!(broken_of(bounds, &PROMISES, |_| true), [""; 0]);
}

#[test]
fn the_promises_are_kept_without_faults() {
    breaks_no_promise(library(3, 0));
    breaks_no_promise(beside_java(2, 0));
    breaks_no_promise(with_lock_channels(beside_java(2, 0)));
}

#[test]
fn a_fault_breaks_no_promise() {
    breaks_no_promise(library(2, 1));
    breaks_no_promise(with_lock_channels(library(2, 1)));
}

#[test]
#[ignore = "soak"]
fn two_faults_break_no_promise() {
    breaks_no_promise(library(2, 2));
    breaks_no_promise(with_lock_channels(library(2, 2)));
}

#[test]
#[ignore = "soak"]
fn a_fault_beside_java_breaks_no_promise() {
    breaks_no_promise(beside_java(2, 1));
    breaks_no_promise(with_lock_channels(beside_java(2, 1)));
}

#[test]
#[ignore = "soak"]
fn two_faults_beside_java_break_no_promise() {
    breaks_no_promise(beside_java(2, 2));
}

#[test]
#[ignore = "soak"]
fn three_clients_beside_java_break_no_promise() {
    breaks_no_promise(beside_java(3, 0));
}

#[test]
#[ignore = "soak"]
fn a_fault_breaks_no_promise_to_three_clients() {
    breaks_no_promise(library(3, 1));
}

/// A promise about quiet states says nothing about steps that never end.
#[test]
fn urgent_steps_end() {
    for bounds in [library(2, 1), beside_java(2, 0)] {
        let longest = longest_urgent_path(&bounds);
        println!("at most {longest} urgent steps in a row: {bounds:?}");
    }
}

/// Returns the number of urgent steps that follow each other at most. Fails if they can repeat a
/// state.
fn longest_urgent_path(bounds: &Bounds) -> usize {
    let mut lengths: HashMap<State, Option<usize>> = HashMap::new();
    let mut seen: HashSet<State> = bounds.init_states().into_iter().collect();
    let mut to_visit: Vec<State> = seen.iter().cloned().collect();
    let mut longest = 0;
    while let Some(state) = to_visit.pop() {
        longest = longest.max(urgent_path(bounds, &state, &mut lengths));
        let next = bounds.next_states(&state);
        to_visit.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    longest
}

/// `None` is the length of a path that is still followed.
fn urgent_path(
    bounds: &Bounds,
    state: &State,
    lengths: &mut HashMap<State, Option<usize>>,
) -> usize {
    if let Some(length) = lengths.get(state) {
        return length.expect("urgent steps do not repeat a state");
    }
    lengths.insert(state.clone(), None);
    let mut steps = Vec::new();
    state.urgent(&mut steps);
    let next = steps
        .into_iter()
        .filter_map(|step| bounds.next_state(state, step));
    let length = next
        .map(|next| urgent_path(bounds, &next, lengths) + 1)
        .max()
        .unwrap_or(0);
    lengths.insert(state.clone(), Some(length));
    length
}

#[test]
fn each_rule_is_needed() {
    for (planted, bounds, promise) in [
        (Planted::NotMarked, library(2, 0), ORDER),
        (Planted::Barges, library(2, 0), ORDER),
        (Planted::DeadKept, library(2, 1), CALLED),
        (Planted::MarkKept, library(2, 0), KEPT),
        (Planted::DroppedAtCall, library(2, 0), CALLED),
        (Planted::LeavesSilently, library(2, 0), CALLED),
        (Planted::LeavesJavaSilently, beside_java(2, 0), CALLED),
        (Planted::OnlyIfCalledIgnored, library(2, 0), CALLED),
        (Planted::LeavesOnlyIfFree, beside_java(2, 1), ONCE),
        (Planted::CallIgnored, library(2, 1), CALLED),
        (Planted::CallIgnored, library(2, 1), ONCE),
        (Planted::LastCallIgnored, library(2, 1), CALLED),
        (Planted::ReservedWithoutEnd, library(2, 1), ONE_TIMER),
        (Planted::OldPlaceKept, library(2, 1), ONCE),
        (Planted::NotAskedAfterConfirmation, library(2, 0), CALLED),
        (Planted::RankStale, beside_java(2, 0), CALLED),
        (Planted::MessageForgotten, library(2, 0), CALLED),
    ] {
        let planted = Some(planted);
        check::breaks(Bounds { planted, ..bounds }, promise);
    }
}
