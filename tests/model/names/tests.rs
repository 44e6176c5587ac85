//! Clients of several names in all states, and each rule broken once.

use super::machine::{Bounds, CALLED, NO_CIRCLE, ORDER, PROMISES, Planted};
use crate::check::{self, broken_of};

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 4;

fn clients(needs: &[u8]) -> Bounds {
    Bounds {
        planted: None,
        needs: needs.into(),
        names: 3,
        has_long_holds: false,
    }
}

fn with_long_holds(needs: &[u8]) -> Bounds {
    Bounds {
        has_long_holds: true,
        ..clients(needs)
    }
}

const ALL: [&[u8]; 5] = [
    // One of all names beside clients of one.
    &[A | B | C, A, B, C],
    // Two of the same names.
    &[A | B, A | B, A, B],
    // A circle.
    &[A | B, B | C, C | A],
    &[A | B, B | C, C | A, A],
    &[A | B, B | C, C | A, A | B | C, A],
];

#[test]
fn the_promises_are_kept() {
    for needs in ALL {
        for bounds in [clients(needs), with_long_holds(needs)] {
            assert_eq!(broken_of(bounds, &PROMISES, |_| true), [""; 0]);
        }
    }
}

#[test]
fn each_rule_is_needed() {
    for (planted, promise) in [
        (Planted::Barges, ORDER),
        (Planted::OwnScores, NO_CIRCLE),
        (Planted::LeavesSilently, CALLED),
        (Planted::ReservationEndsSilently, CALLED),
        (Planted::NotAskedAgain, CALLED),
    ] {
        let bounds = with_long_holds(ALL[3]);
        let planted = Some(planted);
        check::breaks(Bounds { planted, ..bounds }, promise);
    }
}
