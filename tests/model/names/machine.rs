//! The scripts, and what the clients do.

use stateright::{Model, Property};

pub const CALLED: &str = "a client that could take its names asks without a timer";
pub const NO_CIRCLE: &str = "no client waits while nothing is held";
pub const ORDER: &str = "a waiting client does not pass another one that was before it";

const LEFT: &str = "a client waits for a name, and another holds a name whose line it has left";
const RESERVED: &str = "a free name is refused";

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
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
pub struct Bounds {
    pub planted: Option<Planted>,
    /// The names that each client needs, as numbers of their bits.
    pub needs: Vec<u8>,
    pub names: usize,
    /// Holds can be longer than reservations.
    pub has_long_holds: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Idle,
    /// True if it was called and has not asked yet.
    Waits(bool),
    Holds,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Name {
    pub holder: Option<usize>,
    pub line: Vec<usize>,
    /// It is reserved for the first place; true if that was for long enough.
    pub mark: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub clients: Vec<Phase>,
    pub names: Vec<Name>,
    /// The clients that have places, the one with the lowest score first.
    pub order: Vec<usize>,
    pub has_passed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ask(usize),
    /// The last request does not wait, and takes what is free.
    GiveUp(usize),
    Release(usize),
    /// Nothing has called the client for longer than its reservations last.
    Timer(usize),
}

impl Bounds {
    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    pub fn needed(&self, c: usize) -> impl Iterator<Item = usize> + use<> {
        let needs = self.needs[c];
        (0..self.names).filter(move |name| needs & 1 << name != 0)
    }
}

impl State {
    /// True if a request of the client would be granted that waits.
    pub fn can_take(&self, c: usize, bounds: &Bounds) -> bool {
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
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            clients: vec![Phase::Idle; self.needs.len()],
            names: vec![Name::default(); self.names],
            order: Vec::new(),
            has_passed: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (c, phase) in state.clients.iter().enumerate() {
            match phase {
                Phase::Idle => steps.push(Step::Ask(c)),
                Phase::Waits(true) => steps.extend([Step::Ask(c), Step::GiveUp(c)]),
                Phase::Waits(false) => {
                    steps.push(Step::GiveUp(c));
                    steps.extend(self.has_long_holds.then_some(Step::Timer(c)));
                }
                Phase::Holds => steps.push(Step::Release(c)),
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Ask(c) => next.ask(c, true, self),
            Step::GiveUp(c) => next.ask(c, false, self),
            Step::Release(c) => {
                next.clients[c] = Phase::Idle;
                for name in self.needed(c) {
                    next.names[name].holder = None;
                    next.call_first(name);
                }
            }
            Step::Timer(c) => {
                let is_first = |name: &&mut Name| name.line.first() == Some(&c);
                for name in next.names.iter_mut().filter(is_first) {
                    name.mark = name.mark.map(|_| true);
                }
                next.ask(c, true, self);
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(CALLED, |bounds: &Self, state: &State| {
                let mut waiting = state.waiting();
                !state.is_quiet() || !waiting.any(|c| state.can_take(c, bounds))
            }),
            Property::always(NO_CIRCLE, |_, state: &State| {
                let is_held = state.clients.contains(&Phase::Holds);
                is_held || !state.is_quiet() || state.waiting().next().is_none()
            }),
            Property::always(ORDER, |_, state: &State| !state.has_passed),
            Property::sometimes(LEFT, |bounds, state: &State| {
                let has_place = |c, name: usize| state.names[name].line.contains(&c);
                let has_left =
                    |c, name: usize| !has_place(c, name) && state.names[name].holder.is_some();
                let has_left_one = |c| {
                    let mut needed = bounds.needed(c);
                    needed.any(|name| has_place(c, name))
                        && bounds.needed(c).any(|name| has_left(c, name))
                };
                !bounds.has_long_holds || state.waiting().any(has_left_one)
            }),
            Property::sometimes(RESERVED, |_, state: &State| {
                let is_reserved = |name: &Name| name.holder.is_none() && name.mark.is_some();
                state.names.iter().any(is_reserved) && state.waiting().count() > 1
            }),
        ]
    }
}
