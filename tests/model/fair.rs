//! A model of the queue of a fair lock: `lua/fair_acquire.lua` and `lua/shared/fair_head.lua`.
//!
//! Each client acquires the lock once. A client of this library enters the queue before it listens,
//! and asks again when it listens, when its connection was cut, and at any other time. A thread of
//! Redisson does not ask again. A client may die at any time. Then its lease ends at any later
//! time, and so does its place, if no script removes it before.

mod ends;

use crate::check::{Model, Promises, Step, breaks, keeps, with};

/// A live client keeps its place, unless its connection was cut since its last request.
const KEPT: &str = "a live client keeps its place";
/// After a script, the first place of a free lock belongs to no client that is known to be dead.
const NO_DEAD_FIRST: &str = "no dead client is the first";
/// A script that removes the first place of a free lock, or frees it, notifies the next client, and
/// so does one of a client that asks again.
const NOTIFIED: &str = "the next client is notified";
/// If clients die only while the lock is held, no client has to ask again without a reason. A
/// thread of Redisson has to, if its own scripts are the next ones: they know nothing of dead
/// clients.
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
            let notifies = (is_removed || is_queued) && !self.is_java(by);
            self.left_free(state, by, notifies, is_silent);
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

    fn start(&self) -> State {
        State {
            clients: vec![Client::default(); self.clients],
            deaths: self.deaths,
            cuts: self.cuts,
            ..State::default()
        }
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        for (at, client) in state.clients.iter().enumerate() {
            let may_ask = client.is_woken || self.has_time && !self.is_java(at);
            if client.phase == Phase::New || client.phase == Phase::Waits && may_ask {
                step(&("asks", at), &|next| self.ask(next, at));
            }
            match client.phase {
                Phase::Waits if !client.listens => {
                    step(&("listens", at), &|next| {
                        next.clients[at].listens = true;
                        next.clients[at].is_woken = true;
                    });
                }
                Phase::Waits if state.cuts > 0 => {
                    step(&("is cut", at), &|next| {
                        let client = &mut next.clients[at];
                        (client.listens, client.is_woken, client.is_cut) = (false, true, true);
                        next.cuts -= 1;
                    });
                }
                Phase::Holds => step(&("releases", at), &|next| {
                    next.clients[at].phase = Phase::Done;
                    next.holder = None;
                    self.remove(next, at);
                    self.left_free(next, at, true, false);
                }),
                _ => {}
            }
            let may_die = self.has_time || state.holder.is_some();
            if matches!(client.phase, Phase::Waits | Phase::Holds) && state.deaths > 0 && may_die {
                step(&("dies", at), &|next| {
                    let client = &mut next.clients[at];
                    (client.phase, client.listens, client.is_woken) = (Phase::Dead, false, false);
                    next.deaths -= 1;
                });
            }
        }
        let is_dead = |client: usize| state.clients[client].phase == Phase::Dead;
        if state.holder.is_some_and(is_dead) {
            step(&"the lease ends", &|next| {
                next.holder = None;
                let clients = next.clients.iter_mut();
                let waiting = clients.filter(|client| client.phase == Phase::Waits);
                waiting.for_each(|client| client.is_woken = true);
            });
        }
        for (at, place) in state.queue.iter().enumerate() {
            if is_dead(place.client) && !place.has_ended && self.has_time {
                let end = |next: &mut State| next.queue[at].has_ended = true;
                step(&("place ends", at), &end);
            }
        }
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        promises.of_step(state.broken);
        let mut is_stuck = true;
        self.steps(state, &mut |_, _| is_stuck = false);
        // It died before Redis knew that it listened, so only time ends its place.
        let is_held_up = state.queue.first().is_some_and(|first| !first.is_marked);
        let is_waited_for = state.clients.iter().any(|one| one.phase == Phase::Waits);
        let is_exempt = self.has_java || is_held_up;
        promises.always(TAKEN, !is_stuck || is_exempt || !is_waited_for);
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
