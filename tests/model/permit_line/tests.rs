//! The line of a semaphore in all states, and each rule broken once.

use super::machine::{Bounds, CALLED, HEARD, ONE_TIMER, ORDER, PROMISES, Planted};
use crate::check::{self, broken_of};

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
    Bounds {
        has_java: true,
        ..library(permits, needs, faults)
    }
}

fn breaks_no_promise(bounds: Bounds) {
    assert_eq!(broken_of(bounds, &PROMISES, |_| true), [""; 0]);
}

#[test]
fn the_promises_are_kept_without_faults() {
    breaks_no_promise(library(2, &[1, 2, 1], 0));
    breaks_no_promise(beside_java(2, &[1, 2], 0));
}

#[test]
fn a_fault_breaks_no_promise() {
    breaks_no_promise(library(1, &[1, 1], 1));
    breaks_no_promise(library(2, &[1, 2], 1));
    breaks_no_promise(beside_java(1, &[1, 1], 1));
}

#[test]
#[ignore = "soak"]
fn the_promises_are_kept_to_three_clients() {
    breaks_no_promise(beside_java(2, &[1, 2, 1], 0));
    breaks_no_promise(library(2, &[1, 2, 1], 1));
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
        let planted = Some(planted);
        check::breaks(Bounds { planted, ..bounds }, promise);
    }
}
