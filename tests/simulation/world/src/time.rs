//! The clock of the world, in nanoseconds since its begin, and what happens at a later time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::world;

/// A millisecond of the clock.
pub const MS: u64 = 1_000_000;

/// How long a thread takes from one switch to the next, and how long until it locks a mutex. If
/// they were shorter, the threads of a process would do little but hand a lock over until the next
/// reply.
const SWITCH: u64 = 2_000;
const COMPUTE: u64 = 500;

type Event = Box<dyn FnOnce()>;

/// The events are in the order of their times, and of their registration.
#[derive(Default)]
pub(crate) struct Time {
    now: Cell<u64>,
    next_event: Cell<u64>,
    events: RefCell<BTreeMap<(u64, u64), Event>>,
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Time").finish_non_exhaustive()
    }
}

/// The time now.
#[must_use]
pub fn now() -> u64 {
    world(|world| world.time.now.get())
}

/// A time in nanoseconds; of one that is too long, half of the longest.
#[must_use]
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}

/// The time that is later than now by this.
#[must_use]
pub fn after(time: Duration) -> u64 {
    now().saturating_add(nanos(time))
}

/// The time now, which nothing else shows: the clock goes on by a nanosecond. So the records of a
/// log have different times.
#[must_use]
pub fn stamp() -> u64 {
    pass(1);
    now()
}

/// An event that has not happened.
#[derive(Clone, Copy, Debug)]
pub struct Later(u64, u64);

/// Does this at that time, or as soon as the running thread has ended its slice.
pub fn at(time: u64, event: impl FnOnce() + 'static) -> Later {
    world(|world| {
        let number = world
            .time
            .next_event
            .replace(world.time.next_event.get() + 1);
        let later = Later(time.max(world.time.now.get()), number);
        let mut events = world.time.events.borrow_mut();
        events.insert((later.0, later.1), Box::new(event));
        later
    })
}

/// Makes an event not happen.
pub fn cancel(Later(time, number): Later) {
    let event = world(|world| world.time.events.borrow_mut().remove(&(time, number)));
    drop(event);
}

/// The time of the next event.
pub(crate) fn next() -> Option<u64> {
    world(|world| {
        let events = world.time.events.borrow();
        events.first_key_value().map(|((time, _), _)| *time)
    })
}

/// Makes the next event happen if it is due.
pub(crate) fn happen(now: u64) -> bool {
    let due = world(|world| {
        let mut events = world.time.events.borrow_mut();
        let is_due = events
            .first_key_value()
            .is_some_and(|((time, _), _)| *time <= now);
        is_due.then(|| events.pop_first()).flatten()
    });
    match due {
        Some((_, event)) => {
            event();
            true
        }
        None => false,
    }
}

pub(crate) fn advance_to(time: u64) {
    world(|world| world.time.now.set(time.max(world.time.now.get())));
}

/// Another thread runs now.
pub(crate) fn pass_switch() {
    pass(SWITCH);
}

/// A thread has computed.
pub(crate) fn pass_computing() {
    pass(COMPUTE);
}

fn pass(nanos: u64) {
    world(|world| world.time.now.set(world.time.now.get() + nanos));
}
