//! The line of a semaphore in all states, and each rule broken once.

use super::machine::{Bounds, CALLED, HEARD, ONE_TIMER, ORDER, Planted};
use crate::check::{breaks, keeps, with};

fn library(permits: i8, needs: &[i8], faults: u8) -> Bounds {
    Bounds {
        planted: None,
        permits,
        needs: needs.to_vec(),
        has_java: false,
        faults,
    }
}

fn beside_java(permits: i8, needs: &[i8], faults: u8) -> Bounds {
    with(library(permits, needs, faults), |it| it.has_java = true)
}

#[test]
fn the_promises_are_kept_without_faults() {
    keeps(library(2, &[1, 2, 1], 0));
    keeps(beside_java(2, &[1, 2], 0));
}

#[test]
fn a_fault_breaks_no_promise() {
    keeps(library(1, &[1, 1], 1));
    keeps(library(2, &[1, 2], 1));
    keeps(beside_java(1, &[1, 1], 1));
}

#[test]
#[ignore = "soak"]
fn the_promises_are_kept_to_three_clients() {
    keeps(beside_java(2, &[1, 2, 1], 0));
    keeps(library(2, &[1, 2, 1], 1));
}

#[test]
fn each_rule_is_needed() {
    for (planted, bounds, promise) in [
        (Planted::NotReserved, library(2, &[1, 1, 1], 0), ORDER),
        (Planted::PassesMany, library(2, &[1, 2, 1], 0), ORDER),
        (Planted::Barges, library(2, &[1, 2, 1], 0), ORDER),
        (Planted::NoChain, library(2, &[2, 1, 1], 0), CALLED),
        (Planted::LateKept, library(1, &[1, 1, 1], 1), ONE_TIMER),
        (Planted::CalledKept, beside_java(1, &[1, 1], 0), CALLED),
        (Planted::DutyKept, library(1, &[1, 1, 1], 0), HEARD),
        (
            Planted::NotAskedAfterConfirmation,
            beside_java(1, &[1], 0),
            CALLED,
        ),
    ] {
        breaks(with(bounds, |it| it.planted = Some(planted)), promise);
    }
}
