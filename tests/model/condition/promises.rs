//! What must hold in every state, and situations that must occur in some state, so that the
//! promises are really tested.

use stateright::Property;

use super::redis::{Command, Place};
use super::state::{LateCopy, Phase, Protocol, State, Thread, Why};
use crate::check::by_step;

pub const NOT_LOST: &str = "a notification is taken, or passed on while a thread waits for one";
pub const ONE: &str = "a call of notify_one notifies at most one waiter";
pub const SWALLOWED: &str = "a wait that took a notification reports it";
pub const MISSED: &str = "a notification is not missed by a thread that has released the lock";
pub const NO_PLACE_LEFT: &str = "a wait that is over leaves no place";

pub fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(NOT_LOST, |_, state: &State| {
            usize::from(state.redis.owed) == notified(state).count()
        }),
        Property::always(ONE, |_, state: &State| {
            state.redis.notified_by.iter().all(|&count| count <= 1)
        }),
        by_step!(SWALLOWED),
        by_step!(MISSED),
        Property::always(NO_PLACE_LEFT, |_, state: &State| {
            state.redis.places.iter().all(|place| {
                let waiter = place.waiter;
                let is_named = |command: &Command| match command {
                    Command::Wait(_, named) | Command::End { waiter: named, .. } => {
                        *named == waiter
                    }
                    _ => false,
                };
                let is_late = state.late.iter().any(|late| is_named(&late.command));
                let is_dead = state.threads[waiter.thread].phase == Phase::Dead;
                is_late || is_dead || state.is_in_wait(waiter)
            })
        }),
        Property::sometimes(
            "the notification of a dead waiter is passed on",
            |protocol: &Protocol, state: &State| {
                let is_dead = |thread: &Thread| thread.phase == Phase::Dead;
                protocol.deaths == 0
                    || state.threads.iter().any(is_dead)
                        && notified(state).any(|place| state.is_in_wait(place.waiter))
            },
        ),
        Property::sometimes(
            "a waiter is notified after its time is over",
            |_, state: &State| {
                let phase = |place: &Place| state.threads[place.waiter.thread].phase;
                notified(state).any(|place| phase(place) == Phase::Woken(Why::Time))
            },
        ),
        Property::sometimes(
            "a late copy of a wait is executed after that wait",
            |protocol: &Protocol, state: &State| {
                protocol.failures == 0 || state.late.iter().any(|late| late.behind.is_some())
            },
        ),
        Property::sometimes(
            "a late copy of a notification is outstanding while a thread waits",
            |protocol: &Protocol, state: &State| {
                let is_notify = |late: &LateCopy| matches!(late.command, Command::Notify { .. });
                protocol.failures == 0
                    || state.late.iter().any(is_notify)
                        && notified(state).count() < state.redis.places.len()
            },
        ),
    ]
}

fn notified(state: &State) -> impl Iterator<Item = &Place> {
    state
        .redis
        .places
        .iter()
        .filter(|place| place.call.is_some())
}
