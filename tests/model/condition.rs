//! A model of the condition of a lock: `src/protocol/condition.rs`.
//!
//! Some threads, of one client or of several, each run a short program: they wait or notify, each
//! time with the lock. A request may be lost, executed without a reply, or executed at any later
//! time; its thread sends it again, or gives up. A wait may end by its time, and its thread may
//! fail to acquire the lock again. A client may die; its lock and its places end at any later time.
//!
//! The lock itself is not modelled, nor the length of a place: a thread that lives keeps its place.
//! Messages make no difference: a thread learns at any time that it need not wait any more.

mod machine;
mod redis;
mod state;

use machine::{MISSED, SWALLOWED};
use redis::{Command, Place};
use state::{LateCopy, Op, Phase, Planted, Protocol, State, Thread, Why};

use crate::check::{Promises, breaks, keeps, with};

const NOT_LOST: &str = "a notification is taken, or passed on while a thread waits for one";
const ONE: &str = "a call of notify_one notifies at most one waiter";
const NO_PLACE_LEFT: &str = "a wait that is over leaves no place";

/// What must hold in every state.
fn check(protocol: &Protocol, state: &State, promises: &mut Promises) {
    let redis = &state.redis;
    let notified: Vec<&Place> = redis.places.iter().filter(|it| it.call.is_some()).collect();
    promises.always(NOT_LOST, usize::from(redis.owed) == notified.len());
    promises.always(ONE, redis.notified_by.iter().all(|&count| count <= 1));
    promises.of_step(state.broken);
    let phase = |place: &Place| state.threads[place.waiter.thread].phase;
    let may_have_place = |place: &Place| {
        let is_named = |late: &LateCopy| match late.command {
            Command::Wait(_, named) | Command::End { waiter: named, .. } => named == place.waiter,
            _ => false,
        };
        let is_late = state.late.iter().any(is_named);
        is_late || phase(place) == Phase::Dead || state.is_in_wait(place.waiter)
    };
    promises.always(NO_PLACE_LEFT, redis.places.iter().all(may_have_place));
    if protocol.deaths > 0 {
        let is_dead = |thread: &Thread| thread.phase == Phase::Dead;
        let is_passed_on = notified.iter().any(|place| state.is_in_wait(place.waiter));
        promises.sometimes(
            "the notification of a dead waiter is passed on",
            state.threads.iter().any(is_dead) && is_passed_on,
        );
    }
    let mut notified_phases = notified.iter().map(|place| phase(place));
    promises.sometimes(
        "a waiter is notified after its time is over",
        notified_phases.any(|phase| phase == Phase::Woken(Why::Time)),
    );
    if protocol.failures > 0 {
        promises.sometimes(
            "a late copy of a wait is executed after that wait",
            state.late.iter().any(|late| late.behind.is_some()),
        );
        let is_notify = |late: &LateCopy| matches!(late.command, Command::Notify { .. });
        promises.sometimes(
            "a late copy of a notification is outstanding while a thread waits",
            state.late.iter().any(is_notify) && notified.len() < redis.places.len(),
        );
    }
}

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
