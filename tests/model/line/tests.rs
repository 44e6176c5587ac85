//! The line in all states, and each rule broken once.

use std::collections::{HashMap, HashSet};

use super::machine::{Bounds, Planted};
use super::promises::{CALLED, FOLLOWED, KEPT, LOOKS, ONCE, ORDER, OVERTAKEN, ROUNDS};
use super::state::{
    Role::{self, Reader, Writer},
    State,
};
use crate::check::{Model, breaks, keeps, with};

const READER: &[Role] = &[Reader];
const WRITER: &[Role] = &[Writer];
const EITHER: &[Role] = &[Writer, Reader];

fn library(clients: impl Into<Vec<&'static [Role]>>, faults: u8) -> Bounds {
    Bounds {
        planted: None,
        clients: clients.into(),
        java: &[],
        has_downgrades: false,
        has_lock_channels: false,
        faults,
        only_ends: false,
    }
}

fn only_ends(bounds: Bounds) -> Bounds {
    with(bounds, |it| it.only_ends = true)
}

/// Clients of a lock without readers, of which some end or stop.
fn ends(clients: usize, faults: u8) -> Bounds {
    only_ends(plain(clients, faults))
}

/// A lock without readers.
fn plain(clients: usize, faults: u8) -> Bounds {
    library(vec![WRITER; clients], faults)
}

fn beside_java(java: &'static [Role], bounds: Bounds) -> Bounds {
    with(bounds, |it| it.java = java)
}

fn plain_beside_java(clients: usize, faults: u8) -> Bounds {
    beside_java(WRITER, plain(clients, faults))
}

fn with_downgrades(bounds: Bounds) -> Bounds {
    with(bounds, |it| it.has_downgrades = true)
}

fn with_lock_channels(bounds: Bounds) -> Bounds {
    with(bounds, |it| it.has_lock_channels = true)
}

#[test]
fn the_promises_are_kept_without_faults() {
    keeps(plain(3, 0));
    keeps(with_lock_channels(plain_beside_java(2, 0)));
    keeps(with_downgrades(library([EITHER, EITHER], 0)));
    keeps(beside_java(EITHER, library([WRITER, READER], 0)));
}

#[test]
fn a_fault_breaks_no_promise() {
    keeps(ends(2, 2));
    keeps(only_ends(library([WRITER, READER], 1)));
}

#[test]
#[ignore = "soak"]
fn a_fault_of_any_kind_breaks_no_promise() {
    keeps(with_lock_channels(plain(2, 1)));
    keeps(with_downgrades(library([EITHER, EITHER], 1)));
    keeps(library([WRITER, READER, READER], 0));
}

#[test]
#[ignore = "soak"]
fn clients_that_end_or_stop_break_no_promise_to_three() {
    keeps(ends(3, 1));
    keeps(ends(3, 2));
}

#[test]
#[ignore = "soak"]
fn two_faults_break_no_promise() {
    keeps(plain(2, 2));
}

#[test]
#[ignore = "soak"]
fn two_ends_break_no_promise() {
    keeps(only_ends(with_downgrades(library([WRITER, READER], 2))));
    keeps(only_ends(plain_beside_java(2, 2)));
}

#[test]
#[ignore = "soak"]
fn a_fault_beside_java_breaks_no_promise() {
    keeps(only_ends(plain_beside_java(2, 1)));
    keeps(only_ends(beside_java(EITHER, library([WRITER, READER], 1))));
}

#[test]
#[ignore = "soak"]
fn a_fault_breaks_no_promise_to_three_clients() {
    keeps(only_ends(library([WRITER, READER, READER], 1)));
}

/// A promise about quiet states says nothing about steps that never end.
#[test]
fn urgent_steps_end() {
    for bounds in [plain_beside_java(2, 0), library([WRITER, READER], 1)] {
        let longest = longest_urgent_path(&bounds);
        println!("at most {longest} urgent steps in a row: {bounds:?}");
    }
}

/// Returns the number of urgent steps that follow each other at most. Fails if they can repeat a
/// state.
fn longest_urgent_path(bounds: &Bounds) -> usize {
    let mut lengths = HashMap::new();
    let mut seen = HashSet::from([bounds.start()]);
    let mut to_visit = vec![bounds.start()];
    let mut longest = 0;
    while let Some(state) = to_visit.pop() {
        longest = longest.max(urgent_path(bounds, &state, &mut lengths));
        bounds.steps(&state, &mut |_, effect| {
            let next = after(&state, effect);
            if seen.insert(next.clone()) {
                to_visit.push(next);
            }
        });
    }
    longest
}

fn after(state: &State, effect: &dyn Fn(&mut State)) -> State {
    let mut next = state.clone();
    effect(&mut next);
    next.normalize();
    next
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
    let mut length = 0;
    state.urgent(bounds, &mut |_, effect| {
        let next = after(state, effect);
        if next != *state {
            length = length.max(urgent_path(bounds, &next, lengths) + 1);
        }
    });
    lengths.insert(state.clone(), Some(length));
    length
}

#[test]
fn each_rule_is_needed() {
    for (planted, bounds, promise) in [
        (Planted::NotMarked, plain(2, 0), ORDER),
        (Planted::Barges, plain(2, 0), ORDER),
        (Planted::DeadKept, plain(2, 1), CALLED),
        (Planted::MarkKept, plain(2, 0), KEPT),
        (Planted::DroppedAtCall, plain(3, 0), CALLED),
        (Planted::LeavesSilently, plain(2, 0), CALLED),
        (Planted::LeavesJavaSilently, plain_beside_java(2, 0), CALLED),
        (Planted::OnlyIfCalledIgnored, plain(2, 0), CALLED),
        (Planted::LeavesOnlyIfFree, plain_beside_java(2, 1), ONCE),
        (Planted::CallIgnored, plain(2, 1), CALLED),
        (Planted::CallIgnored, plain(2, 1), ONCE),
        (Planted::LastCallIgnored, plain(2, 1), CALLED),
        (Planted::ReservedWithoutEnd, plain(2, 1), ROUNDS),
        (Planted::OneByOne, ends(3, 2), ROUNDS),
        (Planted::NotFollowed, ends(2, 1), FOLLOWED),
        (Planted::NotLooked, ends(2, 1), LOOKS),
        (Planted::LossNotSeen, ends(2, 1), LOOKS),
        (Planted::PassesFirst, ends(3, 1), ORDER),
        (Planted::NotAskedAfterConfirmation, plain(2, 0), CALLED),
        (Planted::RankStale, plain_beside_java(2, 0), CALLED),
        (Planted::MessageForgotten, plain(2, 0), CALLED),
        (Planted::HeirSilent, plain(2, 0), CALLED),
        (Planted::HeirForgotten, plain(2, 0), KEPT),
    ] {
        breaks(with(bounds, |it| it.planted = Some(planted)), promise);
    }
}

#[test]
fn each_rule_of_readers_is_needed() {
    let crowd = || library([WRITER, READER, READER], 0);
    let pair = |faults| library([WRITER, READER], faults);
    let beside_reader = |bounds| beside_java(READER, bounds);
    for (planted, bounds, promise) in [
        (Planted::PassesWriter, crowd(), OVERTAKEN),
        (
            Planted::PassesCalledReader,
            beside_reader(crowd()),
            OVERTAKEN,
        ),
        (Planted::ChainBroken, crowd(), CALLED),
        (Planted::MarkDropped, crowd(), ONCE),
        (Planted::LeavesReadersSilently, crowd(), CALLED),
        (Planted::LeavesJavaReaders, beside_reader(pair(0)), CALLED),
        (
            Planted::DowngradesSilently,
            with_downgrades(pair(0)),
            CALLED,
        ),
        (
            Planted::RoleKept,
            with_downgrades(library([EITHER, EITHER], 1)),
            CALLED,
        ),
        (Planted::NotProbed, beside_reader(pair(1)), LOOKS),
    ] {
        breaks(with(bounds, |it| it.planted = Some(planted)), promise);
    }
}
