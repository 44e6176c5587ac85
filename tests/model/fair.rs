//! A model of the queue of a fair lock: `lua/fair_acquire.lua` and `lua/shared/fair_head.lua`.
//!
//! Each client acquires the lock once. A client of this library enters the queue before it listens,
//! and asks again when it listens, when its connection was cut, and at any other time. A thread of
//! Redisson does not ask again. A client may die at any time. Then its lease ends at any later
//! time, and so does its place, if no script removes it before.

mod ends;

use stateright::{Model, Property};

use crate::check::{breaks, by_step, keeps, with};

/// A live client keeps its place, unless its connection was cut since its last request.
const KEPT: &str = "a live client keeps its place";
/// After a script, the first place of a free lock belongs to no client that is known to be dead.
const NO_DEAD_FIRST: &str = "no dead client is the first";
/// A script that removes the first place of a free lock, or frees it, notifies the next client.
const NOTIFIED: &str = "the next client is notified";
/// If clients die only while the lock is held, no client has to ask again without a reason. A thread
/// of Redisson has to, if its own scripts are the next ones: they know nothing of dead clients.
const TAKEN: &str = "a free lock is taken at once";

/// A rule that the model leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// Places are removed although their clients have not listened yet.
    Unmarked,
    /// Places of Redisson are removed, too.
    OfRedisson,
    /// A script removes one place.
    OneAtATime,
    /// A request that removes a place notifies no client.
    Silent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    New,
    Waits,
    Holds,
    Done,
    Dead,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    listens: bool,
    /// It is about to ask.
    is_woken: bool,
    /// Its connection was cut since its last request.
    is_cut: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    client: usize,
    /// The client listened when it sent its last request.
    is_marked: bool,
    has_ended: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    holder: Option<usize>,
    queue: Vec<Place>,
    clients: Vec<Client>,
    deaths: u8,
    cuts: u8,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ask(usize),
    Listen(usize),
    Cut(usize),
    Release(usize),
    Die(usize),
    EndLease,
    EndPlace(usize),
}

#[derive(Clone, Debug)]
struct Machine {
    clients: usize,
    /// The last client is a thread of Redisson.
    has_java: bool,
    /// Clients ask without a reason, and places end. Without that, clients die only while the lock
    /// is held.
    has_time: bool,
    deaths: u8,
    cuts: u8,
    planted: Option<Planted>,
}

impl Machine {
    fn is_java(&self, client: usize) -> bool {
        self.has_java && client + 1 == self.clients
    }

    /// A script of this client removes places at the head. True if it removed any.
    fn remove(&self, state: &mut State, by: usize) -> bool {
        let mut is_removed = false;
        while let Some(first) = state.queue.first() {
            let client = &state.clients[first.client];
            let is_known = match self.planted {
                Some(Planted::Unmarked) => !self.is_java(first.client),
                Some(Planted::OfRedisson) => first.is_marked || self.is_java(first.client),
                _ => first.is_marked,
            };
            let is_dead = !self.is_java(by) && is_known && !client.listens;
            if !first.has_ended && !is_dead {
                break;
            }
            if client.phase != Phase::Dead && !client.is_cut {
                state.broken = Some(KEPT);
            }
            state.queue.remove(0);
            is_removed = true;
            if self.planted == Some(Planted::OneAtATime) {
                break;
            }
        }
        is_removed
    }

    /// A script of this client has left the lock free. It `notifies` the first client.
    fn left_free(&self, state: &mut State, by: usize, notifies: bool, is_silent: bool) {
        let Some(first) = state.queue.first() else {
            return;
        };
        let client = &mut state.clients[first.client];
        client.is_woken |= notifies && !is_silent && client.listens;
        if !self.is_java(by) && first.is_marked && client.phase == Phase::Dead {
            state.broken = Some(NO_DEAD_FIRST);
        } else if !self.is_java(by) && notifies && client.listens && !client.is_woken {
            state.broken = Some(NOTIFIED);
        }
    }

    fn ask(&self, state: &mut State, by: usize) {
        let client = &mut state.clients[by];
        client.phase = Phase::Waits;
        (client.is_woken, client.is_cut) = (false, false);
        let is_marked = client.listens && !self.is_java(by);
        let own = state.queue.iter_mut().find(|place| place.client == by);
        let is_queued = own.map(|own| own.is_marked = is_marked).is_some();
        if state.holder.is_none() {
            let is_removed = self.remove(state, by);
            if state.queue.first().is_none_or(|first| first.client == by) {
                state.queue.retain(|place| place.client != by);
                state.holder = Some(by);
                state.clients[by].phase = Phase::Holds;
                return;
            }
            let is_silent = self.planted == Some(Planted::Silent);
            self.left_free(state, by, is_removed && !self.is_java(by), is_silent);
        }
        if !is_queued {
            state.queue.push(Place {
                client: by,
                is_marked,
                has_ended: false,
            });
        }
    }
}

impl Model for Machine {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            clients: vec![Client::default(); self.clients],
            deaths: self.deaths,
            cuts: self.cuts,
            ..State::default()
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (at, client) in state.clients.iter().enumerate() {
            match client.phase {
                Phase::New => steps.push(Step::Ask(at)),
                Phase::Waits => {
                    if client.is_woken || self.has_time && !self.is_java(at) {
                        steps.push(Step::Ask(at));
                    }
                    match client.listens {
                        false => steps.push(Step::Listen(at)),
                        true if state.cuts > 0 => steps.push(Step::Cut(at)),
                        true => {}
                    }
                }
                Phase::Holds => steps.push(Step::Release(at)),
                Phase::Done | Phase::Dead => continue,
            }
            let may_die = self.has_time || state.holder.is_some();
            if client.phase != Phase::New && state.deaths > 0 && may_die {
                steps.push(Step::Die(at));
            }
        }
        let is_dead = |client: usize| state.clients[client].phase == Phase::Dead;
        steps.extend(
            state
                .holder
                .filter(|at| is_dead(*at))
                .map(|_| Step::EndLease),
        );
        let may_end = |(_, place): &(usize, &Place)| is_dead(place.client) && !place.has_ended;
        let ends = state.queue.iter().enumerate().filter(may_end);
        steps.extend(
            ends.filter(|_| self.has_time)
                .map(|(at, _)| Step::EndPlace(at)),
        );
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Ask(at) => self.ask(&mut state, at),
            Step::Listen(at) => {
                state.clients[at].listens = true;
                state.clients[at].is_woken = true;
            }
            Step::Cut(at) => {
                let client = &mut state.clients[at];
                (client.listens, client.is_woken, client.is_cut) = (false, true, true);
                state.cuts -= 1;
            }
            Step::Release(at) => {
                state.clients[at].phase = Phase::Done;
                state.holder = None;
                self.remove(&mut state, at);
                self.left_free(&mut state, at, true, false);
            }
            Step::Die(at) => {
                let client = &mut state.clients[at];
                (client.phase, client.listens, client.is_woken) = (Phase::Dead, false, false);
                state.deaths -= 1;
            }
            Step::EndLease => {
                state.holder = None;
                let waits = |client: &&mut Client| client.phase == Phase::Waits;
                let clients = state.clients.iter_mut().filter(waits);
                clients.for_each(|client| client.is_woken = true);
            }
            Step::EndPlace(at) => state.queue[at].has_ended = true,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            by_step!(KEPT),
            by_step!(NO_DEAD_FIRST),
            by_step!(NOTIFIED),
            Property::always(TAKEN, |machine: &Self, state: &State| {
                let mut steps = Vec::new();
                machine.actions(state, &mut steps);
                let is_waited_for = |client: &Client| client.phase == Phase::Waits;
                // It died before Redis knew that it listened, so only time ends its place.
                let is_held_up = state.queue.first().is_some_and(|first| !first.is_marked);
                let is_exempt = machine.has_java || is_held_up;
                !steps.is_empty() || is_exempt || !state.clients.iter().any(is_waited_for)
            }),
        ]
    }
}

fn machine(clients: usize) -> Machine {
    Machine {
        clients,
        has_java: false,
        has_time: true,
        deaths: 2,
        cuts: 1,
        planted: None,
    }
}

fn beside_java() -> Machine {
    with(machine(3), |it| it.has_java = true)
}

fn without_time() -> Machine {
    with(machine(4), |it| it.has_time = false)
}

#[test]
fn the_promises_are_kept() {
    for machine in [machine(3), beside_java(), without_time()] {
        keeps(machine);
    }
}

#[test]
fn each_rule_is_needed() {
    for (planted, machine, promise) in [
        (Planted::Unmarked, machine(3), KEPT),
        (Planted::OfRedisson, beside_java(), KEPT),
        (Planted::OneAtATime, machine(3), NO_DEAD_FIRST),
        (Planted::OneAtATime, without_time(), TAKEN),
        (Planted::Silent, machine(4), NOTIFIED),
    ] {
        breaks(with(machine, |it| it.planted = Some(planted)), promise);
    }
}
