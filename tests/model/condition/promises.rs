//! What must hold in every state, and situations that must occur in some state, so that the
//! promises are really tested.

use stateright::Property;

use super::machine::Machine;
use super::redis::Command;
use super::state::{Phase, State, Why};

pub const NOT_LOST: &str = "a notification is taken, or passed on while a thread waits for one";
pub const ONE: &str = "a call of notify_one notifies at most one waiter";
pub const SWALLOWED: &str = "a wait that took a notification reports it";
pub const MISSED: &str = "a notification is not missed by a thread that has released the lock";
pub const NO_PLACE_LEFT: &str = "a wait that is over leaves no place";

pub const PROMISES: [&str; 5] = [NOT_LOST, ONE, SWALLOWED, MISSED, NO_PLACE_LEFT];

pub const PASSED_ON: &str = "the notification of a dead waiter is passed on";
pub const NOTIFIED_LATE: &str = "a waiter is notified after its time is over";
pub const LATE_WAIT: &str = "a late copy of a wait is executed after that wait";
pub const LATE_NOTIFY: &str = "a late copy of a notification is outstanding while a thread waits";

pub fn all() -> Vec<Property<Machine>> {
    vec![
        Property::always(NOT_LOST, |_, state: &State| {
            let places = &state.redis.places;
            let notified = places.iter().filter(|place| place.call.is_some()).count();
            usize::from(state.redis.owed) == notified
        }),
        Property::always(ONE, |_, state: &State| {
            state.redis.notified_by.iter().all(|&count| count <= 1)
        }),
        Property::always(SWALLOWED, |_, state: &State| {
            state.broken != Some(SWALLOWED)
        }),
        Property::always(MISSED, |_, state: &State| state.broken != Some(MISSED)),
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
        Property::sometimes(PASSED_ON, |_, state: &State| {
            let is_dead = |thread: usize| state.threads[thread].phase == Phase::Dead;
            let waits = |place: &&super::redis::Place| state.is_in_wait(place.waiter);
            let notified = state
                .redis
                .places
                .iter()
                .filter(|place| place.call.is_some());
            (0..state.threads.len()).any(is_dead) && notified.filter(waits).count() > 0
        }),
        Property::sometimes(NOTIFIED_LATE, |_, state: &State| {
            state.redis.places.iter().any(|place| {
                place.call.is_some()
                    && state.threads[place.waiter.thread].phase == Phase::Woken(Why::Time)
            })
        }),
        Property::sometimes(LATE_WAIT, |_, state: &State| {
            state.late.iter().any(|late| late.behind.is_some())
        }),
        Property::sometimes(LATE_NOTIFY, |_, state: &State| {
            let is_notify = |command| matches!(command, Command::Notify { .. });
            let is_late = state.late.iter().any(|late| is_notify(late.command));
            is_late && state.redis.places.iter().any(|place| place.call.is_none())
        }),
    ]
}
