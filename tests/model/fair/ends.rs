//! A model of the ends of places: `renew_place` in `lua/fair_acquire.lua`, and the scripts of
//! Redisson, which subtract the time of a place from the ends of all places.
//!
//! All clients live and listen. A tick is the time between two requests of a waiting client of this
//! library. A hold lasts for any number of ticks.

use crate::check::{Model, Promises, Step, breaks, keeps, with};

/// The life of a place of this library, and the time of a place of Redisson.
const LIFE: i8 = 2;
const JAVA: i8 = 5;

/// An end that is this far in the past is as good as any earlier one.
const PAST: i8 = -10;

const KEPT: &str = "a live client of this library keeps its place";
const BOUNDED: &str = "ends do not become later and later";

/// A rule that the model leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// A place behind one of Redisson ends as any other.
    FromNow,
    /// It ends a life after that one.
    Behind,
    /// Only its first request makes its end late.
    Once,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    client: usize,
    /// What is left until the end.
    left: i8,
    is_behind_java: bool,
    /// Its client has asked in this tick.
    is_fresh: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    holder: Option<usize>,
    queue: Vec<Place>,
    is_broken: bool,
}

/// The first clients are of this library, and the others threads of Redisson.
#[derive(Clone, Debug)]
struct Machine {
    ours: usize,
    java: usize,
    planted: Option<Planted>,
}

impl Machine {
    fn is_java(&self, client: usize) -> bool {
        client >= self.ours
    }

    /// Removes the places at the head that have ended.
    fn evict(&self, state: &mut State) {
        while state.queue.first().is_some_and(|first| first.left <= 0) {
            let first = state.queue.remove(0);
            state.is_broken |= !self.is_java(first.client);
        }
    }

    /// As [`evict`](Self::evict), in a script of this library.
    fn fair_head(&self, state: &mut State) {
        self.evict(state);
        if let Some(first) = state.queue.first_mut()
            && !self.is_java(first.client)
            && first.left > LIFE
        {
            (first.left, first.is_fresh) = (LIFE, false);
        }
    }

    fn ask(&self, state: &mut State, by: usize) {
        let is_java = self.is_java(by);
        let at = state.queue.iter().position(|place| place.client == by);
        if is_java {
            self.evict(state);
        }
        let is_free = state.holder.is_none();
        let is_next = state.queue.first().is_none_or(|first| first.client == by);
        if is_free && is_next {
            state.queue.retain(|place| place.client != by);
            if is_java {
                state.queue.iter_mut().for_each(|place| place.left -= JAVA);
            }
            state.holder = Some(by);
            return;
        }
        if is_java {
            if state.queue.iter().all(|place| place.client != by) {
                let base = state.queue.last().map_or(0, |last| last.left);
                self.enter(state, by, base + JAVA, false);
            }
            return;
        }
        let places = i8::try_from(state.queue.len()).unwrap();
        let late = LIFE + places * JAVA;
        if let Some(at) = at {
            let own = &mut state.queue[at];
            own.is_behind_java &= at > 0;
            own.left = match (own.is_behind_java, self.planted) {
                (true, Some(Planted::Once | Planted::Behind)) => own.left.max(LIFE),
                (true, _) => own.left.max(late),
                (false, _) => LIFE,
            };
            own.is_fresh = true;
        }
        self.fair_head(state);
        if at.is_none() {
            let last = state.queue.last();
            let is_java = |last: &Place| last.is_behind_java || self.is_java(last.client);
            let is_behind_java = last.is_some_and(is_java);
            let last = last.map_or(0, |last| last.left);
            let left = match (is_behind_java, self.planted) {
                (false, _) | (_, Some(Planted::FromNow)) => LIFE,
                (true, Some(Planted::Behind)) => LIFE.max(last + LIFE),
                (true, _) => last.max(late),
            };
            self.enter(state, by, left, is_behind_java);
        }
    }

    fn enter(&self, state: &mut State, client: usize, left: i8, is_behind_java: bool) {
        state.queue.push(Place {
            client,
            left,
            is_behind_java,
            is_fresh: true,
        });
    }
}

impl Model for Machine {
    type State = State;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        for by in 0..self.ours + self.java {
            if state.holder != Some(by) {
                step(&("asks", by), &|next| self.ask(next, by));
            }
        }
        for (at, place) in state.queue.iter().enumerate() {
            if self.is_java(place.client) {
                step(&("gives up", place.client), &|next| {
                    next.queue.remove(at);
                    let behind = next.queue[at..].iter_mut();
                    behind.for_each(|place| place.left -= JAVA);
                });
            }
        }
        if let Some(holder) = state.holder {
            step(&("releases", holder), &|next| {
                next.holder = None;
                match self.is_java(holder) {
                    true => self.evict(next),
                    false => self.fair_head(next),
                }
            });
        }
        let has_asked = |place: &Place| place.is_fresh || self.is_java(place.client);
        if state.queue.iter().all(has_asked) {
            step(&"time passes", &|next| {
                for place in &mut next.queue {
                    place.left -= 1;
                    place.is_fresh = false;
                }
            });
        }
    }

    fn normalize(&self, state: &mut State) {
        for place in &mut state.queue {
            place.left = place.left.max(PAST);
        }
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        promises.always(KEPT, !state.is_broken);
        let clients = i8::try_from(self.ours + self.java).unwrap();
        let bound = LIFE + 2 * clients * JAVA;
        promises.always(BOUNDED, state.queue.iter().all(|place| place.left <= bound));
    }
}

fn machine(ours: usize, java: usize) -> Machine {
    Machine {
        ours,
        java,
        planted: None,
    }
}

#[test]
fn the_promises_are_kept() {
    keeps(machine(1, 2));
    keeps(machine(2, 1));
}

#[test]
fn each_rule_is_needed() {
    for (planted, promise) in [
        (Planted::FromNow, KEPT),
        (Planted::Behind, KEPT),
        (Planted::Behind, BOUNDED),
        (Planted::Once, KEPT),
    ] {
        breaks(
            with(machine(1, 2), |it| it.planted = Some(planted)),
            promise,
        );
    }
}
