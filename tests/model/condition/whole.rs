//! The protocol of the library, in all states.

use super::machine::Machine;
use super::promises::{NOTIFIED_LATE, PASSED_ON, PROMISES};
use super::state::{Op, Protocol};
use crate::check::broken_of;

/// Returns the promises that some reachable state breaks. Fails if a state that must occur is not
/// reached.
fn broken(protocol: Protocol) -> Vec<&'static str> {
    let (deaths, failures) = (protocol.deaths, protocol.failures);
    broken_of(Machine { protocol }, &PROMISES, |name| match name {
        PASSED_ON => deaths > 0,
        NOTIFIED_LATE => true,
        _ => failures > 0,
    })
}

/// Threads of clients of their own.
fn alone(ops: &[&[Op]]) -> Vec<(usize, Vec<Op>)> {
    let threads = ops.iter().enumerate();
    threads
        .map(|(client, ops)| (client, ops.to_vec()))
        .collect()
}

fn protocol(threads: Vec<(usize, Vec<Op>)>, failures: u8, deaths: u8) -> Protocol {
    Protocol {
        planted: None,
        threads,
        failures,
        deaths,
    }
}

const WAIT: &[Op] = &[Op::Wait];
const ONE: &[Op] = &[Op::NotifyOne];
const ALL: &[Op] = &[Op::NotifyAll];

#[test]
fn three_waiters_and_one_notification_survive_deaths() {
    let threads = alone(&[WAIT, WAIT, WAIT, ONE]);
    assert_eq!(broken(protocol(threads, 0, 2)), [""; 0]);
}

#[test]
fn two_waiters_and_two_notifications_survive_a_failure_and_a_death() {
    let threads = alone(&[WAIT, WAIT, &[Op::NotifyOne, Op::NotifyOne]]);
    assert_eq!(broken(protocol(threads, 1, 1)), [""; 0]);
}

#[test]
fn two_waiters_and_one_notification_survive_two_failures() {
    let threads = alone(&[WAIT, WAIT, ONE]);
    assert_eq!(broken(protocol(threads, 2, 0)), [""; 0]);
}

#[test]
fn notifications_of_one_and_of_all_go_together() {
    let threads = alone(&[WAIT, WAIT, ONE, ALL]);
    assert_eq!(broken(protocol(threads, 1, 0)), [""; 0]);
}

/// Late copies find the owner id of their grant, because it is handed over.
#[test]
fn threads_of_one_client_hand_the_lock_over() {
    let threads = [(0, WAIT), (0, WAIT), (0, ONE), (1, ONE)];
    let threads = threads.map(|(client, ops)| (client, ops.to_vec())).to_vec();
    assert_eq!(broken(protocol(threads, 1, 1)), [""; 0]);
}

#[test]
fn a_thread_waits_again() {
    let threads = vec![
        (0, vec![Op::Wait, Op::Wait]),
        (0, vec![Op::Wait]),
        (1, vec![Op::NotifyOne, Op::NotifyOne]),
    ];
    assert_eq!(broken(protocol(threads, 1, 0)), [""; 0]);
}
