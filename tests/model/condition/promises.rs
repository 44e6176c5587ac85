//! What must hold in every state, and situations that must occur in some state, so that the
//! promises are really tested.

use super::redis::{Command, Place};
use super::state::{LateCopy, Phase, Protocol, State, Thread, Why};
use crate::check::Promises;

pub const NOT_LOST: &str = "a notification is taken, or passed on while a thread waits for one";
pub const ONE: &str = "a call of notify_one notifies at most one waiter";
pub const SWALLOWED: &str = "a wait that took a notification reports it";
pub const MISSED: &str = "a notification is not missed by a thread that has released the lock";
pub const NO_PLACE_LEFT: &str = "a wait that is over leaves no place";

pub fn check(protocol: &Protocol, state: &State, promises: &mut Promises) {
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
