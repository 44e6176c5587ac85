//! The protocol of the library in all states, and each rule broken once.

use super::promises::{MISSED, NO_PLACE_LEFT, NOT_LOST, ONE, SWALLOWED};
use super::state::{Op, Planted, Protocol};
use crate::check::{breaks, keeps, with};

/// Threads of these clients, with these failures and deaths.
fn protocol(threads: &[(usize, &[Op])], failures: u8, deaths: u8) -> Protocol {
    let threads = threads.iter();
    Protocol {
        planted: None,
        threads: threads
            .map(|(client, ops)| (*client, ops.to_vec()))
            .collect(),
        failures,
        deaths,
    }
}

const WAIT: &[Op] = &[Op::Wait];
const ONCE: &[Op] = &[Op::NotifyOne];
const TWICE: &[Op] = &[Op::NotifyOne, Op::NotifyOne];
const ALL: &[Op] = &[Op::NotifyAll];

#[test]
fn clients_of_one_thread() {
    keeps(protocol(
        &[(0, WAIT), (1, WAIT), (2, WAIT), (3, ONCE)],
        0,
        2,
    ));
    keeps(protocol(&[(0, WAIT), (1, WAIT), (2, TWICE)], 1, 1));
    keeps(protocol(&[(0, WAIT), (1, WAIT), (2, ONCE)], 2, 0));
    keeps(protocol(&[(0, WAIT), (1, WAIT), (2, ONCE), (3, ALL)], 1, 0));
}

/// Late copies find the owner id of their grant, because it is handed over.
#[test]
fn threads_of_one_client_hand_the_lock_over() {
    keeps(protocol(
        &[(0, WAIT), (0, WAIT), (0, ONCE), (1, ONCE)],
        1,
        1,
    ));
    let again = &[Op::Wait, Op::Wait];
    keeps(protocol(&[(0, again), (0, WAIT), (1, TWICE)], 1, 0));
}

#[test]
fn each_rule_is_needed() {
    for (planted, failures, deaths, promise) in [
        (Planted::ReleasedFirst, 0, 0, MISSED),
        (Planted::CopiesLeft, 1, 0, NO_PLACE_LEFT),
        (Planted::CopiesCount, 1, 0, ONE),
        (Planted::NotPassedOn, 0, 1, NOT_LOST),
        (Planted::NotPassedOn, 1, 0, NOT_LOST),
        (Planted::TakenOnFailure, 1, 0, SWALLOWED),
        (Planted::OrphansTake, 1, 0, NOT_LOST),
        (Planted::TimeBelieved, 0, 0, SWALLOWED),
        (Planted::EndedEarly, 0, 0, SWALLOWED),
        (Planted::GoneBelieved, 1, 0, SWALLOWED),
    ] {
        let protocol = protocol(&[(0, WAIT), (1, WAIT), (2, ONCE)], failures, deaths);
        breaks(with(protocol, |it| it.planted = Some(planted)), promise);
    }
}
