//! Clients of several names in all states, and each rule broken once.

use super::machine::{Bounds, CALLED, NO_CIRCLE, ORDER, Planted};
use crate::check::{breaks, keeps, with};

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
    with(clients(needs), |it| it.has_long_holds = true)
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
        keeps(clients(needs));
        keeps(with_long_holds(needs));
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
        breaks(with(bounds, |it| it.planted = Some(planted)), promise);
    }
}
