//! A model of clients that wait for several locks, each with a line of its own.
//!
//! The clients need sets of names that overlap. A request is one step, with its reply and the
//! messages that it causes: `line` has the messages that are under way, and the faults. A client
//! that is called has to ask. One of several names asks again after some time, and then gives up
//! what was reserved for it.

use crate::check::{Model, Promises, Step, breaks, keeps, with};

const CALLED: &str = "a client that could take its names asks without a timer";
const NO_CIRCLE: &str = "no client waits while nothing is held";
const ORDER: &str = "a waiting client does not pass another one that was before it";

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// A request that waits takes names that are reserved for another client.
    Barges,
    /// A client enters each line at its end.
    OwnScores,
    /// A client that gives up does not call the next one.
    LeavesSilently,
    /// A client that gives up a reservation does not call the next one.
    ReservationEndsSilently,
    /// A client that was refused, and is the first now, does not ask again.
    NotAskedAgain,
}

#[derive(Clone, Debug)]
struct Bounds {
    planted: Option<Planted>,
    /// The names that each client needs, as numbers of their bits.
    needs: Vec<u8>,
    names: usize,
    /// Holds can be longer than reservations.
    has_long_holds: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// True if it was called and has not asked yet.
    Waits(bool),
    Holds,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Name {
    holder: Option<usize>,
    line: Vec<usize>,
    /// It is reserved for the first place; true if that was for long enough.
    mark: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    clients: Vec<Phase>,
    names: Vec<Name>,
    /// The clients that have places, the one with the lowest score first.
    order: Vec<usize>,
    has_passed: bool,
}

impl Bounds {
    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn needed(&self, c: usize) -> impl Iterator<Item = usize> + use<> {
        let needs = self.needs[c];
        (0..self.names).filter(move |name| needs & 1 << name != 0)
    }
}

impl State {
    /// True if a request of the client would be granted that waits.
    fn can_take(&self, c: usize, bounds: &Bounds) -> bool {
        bounds.needed(c).all(|name| {
            let name = &self.names[name];
            name.holder.is_none() && (name.mark.is_none() || name.line.first() == Some(&c))
        })
    }

    fn call_first(&mut self, name: usize) {
        let Name { line, mark, .. } = &mut self.names[name];
        if let Some(first) = line.first() {
            mark.get_or_insert(false);
            if let Phase::Waits(is_called) = &mut self.clients[*first] {
                *is_called = true;
            }
        }
    }

    fn leave(&mut self, c: usize, name: usize) -> bool {
        let Name { line, mark, .. } = &mut self.names[name];
        let is_first = line.first() == Some(&c);
        line.retain(|place| *place != c);
        if is_first {
            *mark = None;
        }
        is_first
    }

    fn end_wait(&mut self, c: usize, name: usize, calls: bool) {
        if self.leave(c, name) && calls && self.names[name].holder.is_none() {
            self.call_first(name);
        }
    }

    fn enter_lines(&mut self, c: usize, bounds: &Bounds) {
        if !self.order.contains(&c) {
            self.order.push(c);
        }
        let mut over = Vec::new();
        let mut is_refused = false;
        for at in bounds.needed(c) {
            let name = &mut self.names[at];
            let is_held = name.holder.is_some();
            let is_mine = |name: &Name| name.mark.is_none() || name.line.first() == Some(&c);
            if (is_held || !is_mine(name)) && !name.line.contains(&c) {
                name.line.push(c);
                if !bounds.has(Planted::OwnScores) {
                    let score = |c: &usize| self.order.iter().position(|other| other == c);
                    name.line.sort_by_key(score);
                }
            }
            is_refused |= is_held || !is_mine(name);
            match name.mark {
                Some(_) if !is_mine(name) => {}
                _ if is_held => name.mark = None,
                Some(true) => over.push(at),
                _ => {}
            }
        }
        if !is_refused {
            self.clients[c] = Phase::Waits(!bounds.has(Planted::NotAskedAgain));
            return;
        }
        for name in over {
            self.end_wait(c, name, !bounds.has(Planted::ReservationEndsSilently));
        }
    }

    fn ask(&mut self, c: usize, waits: bool, bounds: &Bounds) {
        let needed = || bounds.needed(c);
        self.clients[c] = if waits {
            Phase::Waits(false)
        } else {
            Phase::Idle
        };
        let are_free = needed().all(|name| self.names[name].holder.is_none());
        let barges = !waits || bounds.has(Planted::Barges);
        if self.can_take(c, bounds) || barges && are_free {
            for name in needed() {
                let mut before = self.names[name]
                    .line
                    .iter()
                    .take_while(|place| **place != c);
                self.has_passed |= waits && before.any(|_| true);
                self.names[name].holder = Some(c);
                self.leave(c, name);
            }
            self.clients[c] = Phase::Holds;
        } else if waits {
            self.enter_lines(c, bounds);
        } else {
            for name in needed() {
                self.end_wait(c, name, !bounds.has(Planted::LeavesSilently));
            }
        }
        let has_place = |c: &usize| self.names.iter().any(|name| name.line.contains(c));
        self.order.retain(has_place);
    }

    fn release(&mut self, c: usize, bounds: &Bounds) {
        self.clients[c] = Phase::Idle;
        for name in bounds.needed(c) {
            self.names[name].holder = None;
            self.call_first(name);
        }
    }

    /// Nothing has called the client for longer than its reservations last.
    fn time_out(&mut self, c: usize, bounds: &Bounds) {
        let is_first = |name: &&mut Name| name.line.first() == Some(&c);
        for name in self.names.iter_mut().filter(is_first) {
            name.mark = name.mark.map(|_| true);
        }
        self.ask(c, true, bounds);
    }

    fn waiting(&self) -> impl Iterator<Item = usize> {
        let clients = self.clients.iter().enumerate();
        clients.filter_map(|(c, phase)| matches!(phase, Phase::Waits(_)).then_some(c))
    }

    fn is_quiet(&self) -> bool {
        !self.clients.contains(&Phase::Waits(true))
    }
}

impl Model for Bounds {
    type State = State;

    fn start(&self) -> State {
        State {
            clients: vec![Phase::Idle; self.needs.len()],
            names: vec![Name::default(); self.names],
            order: Vec::new(),
            has_passed: false,
        }
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        for (c, phase) in state.clients.iter().enumerate() {
            match phase {
                Phase::Idle | Phase::Waits(true) => {
                    step(&("asks", c), &|next| next.ask(c, true, self));
                }
                Phase::Waits(false) if self.has_long_holds => {
                    step(&("timer ends", c), &|next| next.time_out(c, self));
                }
                Phase::Waits(false) => {}
                Phase::Holds => {
                    step(&("releases", c), &|next| next.release(c, self));
                }
            }
            if let Phase::Waits(_) = phase {
                // Its last request does not wait, and takes what is free.
                step(&("gives up", c), &|next| next.ask(c, false, self));
            }
        }
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        let waits = state.waiting().next().is_some();
        let can_take = state.waiting().any(|c| state.can_take(c, self));
        promises.always(CALLED, !state.is_quiet() || !can_take);
        let is_held = state.clients.contains(&Phase::Holds);
        promises.always(NO_CIRCLE, is_held || !state.is_quiet() || !waits);
        promises.always(ORDER, !state.has_passed);
        if self.has_long_holds {
            let has_place = |c, name: usize| state.names[name].line.contains(&c);
            let has_left =
                |c, name: usize| !has_place(c, name) && state.names[name].holder.is_some();
            let has_left_one = |c| {
                self.needed(c).any(|name| has_place(c, name))
                    && self.needed(c).any(|name| has_left(c, name))
            };
            promises.sometimes(
                "a client waits for a name, and another holds a name whose line it has left",
                state.waiting().any(has_left_one),
            );
        }
        let is_reserved = |name: &Name| name.holder.is_none() && name.mark.is_some();
        promises.sometimes(
            "a free name is refused",
            state.names.iter().any(is_reserved) && state.waiting().count() > 1,
        );
    }
}

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
