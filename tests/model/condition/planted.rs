//! Each rule of the protocol is broken once. A promise must fail, or the model proves nothing.

use stateright::{Checker, HasDiscoveries, Model};

use super::machine::Machine;
use super::promises::{MISSED, NO_PLACE_LEFT, NOT_LOST, ONE, SWALLOWED};
use super::state::{Op, Planted, Protocol};

/// Asserts that the planted bug breaks the promise, with two waiters of two clients, and with these
/// failures and deaths.
fn breaks(planted: Planted, failures: u8, deaths: u8, promise: &'static str) {
    let wait = vec![Op::Wait];
    let protocol = Protocol {
        planted: Some(planted),
        threads: vec![(0, wait.clone()), (1, wait), (2, vec![Op::NotifyOne])],
        failures,
        deaths,
    };
    let checker = Machine { protocol }.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyOf([promise].into()));
    let path = checker.spawn_bfs().join().discovery(promise);
    let steps = path.map(stateright::Path::into_actions);
    println!("{planted:?}: {steps:?}");
    assert!(steps.is_some(), "{planted:?} does not break \"{promise}\"");
}

#[test]
fn a_notification_between_the_release_and_the_queue_is_missed() {
    breaks(Planted::ReleasedFirst, 0, 0, MISSED);
}

#[test]
fn a_late_copy_of_a_wait_leaves_a_place_if_its_end_does_not_follow() {
    breaks(Planted::CopiesLeft, 1, 0, NO_PLACE_LEFT);
}

#[test]
fn a_second_copy_of_a_notification_notifies_another_waiter_if_it_is_not_recognized() {
    breaks(Planted::CopiesCount, 1, 0, ONE);
}

#[test]
fn the_notification_of_a_dead_waiter_is_lost_if_it_is_not_passed_on() {
    breaks(Planted::NotPassedOn, 0, 1, NOT_LOST);
    breaks(Planted::NotPassedOn, 1, 0, NOT_LOST);
}

#[test]
fn a_thread_that_cannot_acquire_the_lock_must_not_take_its_notification() {
    breaks(Planted::TakenOnFailure, 1, 0, SWALLOWED);
}

#[test]
fn the_end_of_a_place_in_the_background_must_not_take_a_later_notification() {
    breaks(Planted::OrphansTake, 1, 0, NOT_LOST);
}

#[test]
fn a_thread_whose_time_is_over_must_report_a_notification() {
    breaks(Planted::TimeBelieved, 0, 0, SWALLOWED);
    breaks(Planted::EndedEarly, 0, 0, SWALLOWED);
}

#[test]
fn a_second_reply_to_the_end_of_a_place_says_nothing() {
    breaks(Planted::GoneBelieved, 1, 0, SWALLOWED);
}
