//! A model of the line of a semaphore: as many clients are called as permits came free.
//!
//! Each client has one thread, which waits for its permits, has them, returns them and gives up any
//! number of times. Java takes and returns a permit without knowing the line, and only the client
//! that listens hears of it. Messages and subscriptions are under way for any time. Scripts are
//! executed at once, as in `lua/shared/permit_line.lua`.
//!
//! Steps that need no timer are urgent. In a state without urgent steps, the time can pass that a
//! called client has to answer, or the second after a probe. A waiting thread also asks at any other
//! time. Faults are bounded: a client is killed, stops and continues, or a call is lost.

mod server;
mod state;

use server::ORDER;
use state::{Client, Phase, State, Subscription};

use crate::check::{Model, Promises, Step, breaks, keeps, with};

const KEPT: &str = "no more permits are taken than are free";
const CALLED: &str = "free permits are taken without a timer while the called clients answer";
const ONE_TIMER: &str = "free permits are taken after one timer of the waiting clients";
const ROUNDS: &str = "one silent client, and then one of two, do not keep a third one waiting";
const HEARD: &str = "a client in the line listens to Java";
const PLACED: &str = "a client that waits has a place";

/// What is checked, and how many failures occur.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub planted: Option<Planted>,
    pub permits: i8,
    /// How many permits each client wants.
    pub needs: Vec<i8>,
    pub has_java: bool,
    /// Clients that need more than are free let others pass for some time.
    pub lets_pass: bool,
    pub faults: u8,
    pub only: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Kill,
    Stop,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Permits of called clients are given to others, too.
    NotReserved,
    /// A client that needs more than are free does not keep those behind it from a call.
    PassesMany,
    /// A client that needs more than are free is not probed.
    NotProbed,
    /// A client is probed although others are called.
    ProbedBesideCalled,
    /// A client that needs more than are free always keeps those behind it waiting.
    NeverPassed,
    /// After a silent client, the next one is called, and not the next two.
    OneByOne,
    /// A request takes free permits although others wait.
    Barges,
    /// A client that takes permits does not call the next ones.
    NoChain,
    /// A called client has any time to answer.
    LateKept,
    /// A called client that is refused counts as called.
    CalledKept,
    /// A client that leaves the line passes its duty to listen to no other.
    DutyKept,
    /// A thread does not ask again when its subscription is confirmed.
    NotAskedAfterConfirmation,
}

impl Bounds {
    pub fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}

impl State {
    /// The steps that need no timer and no decision.
    fn urgent(&self, bounds: &Bounds, step: &mut Step<'_, Self>) {
        let responding = self.clients.iter().enumerate();
        for (c, client) in responding.filter(|(_, client)| client.responds()) {
            match client.phase {
                Phase::Asked { .. } => {
                    step(&("has its reply", c), &|next| next.clients[c].receive());
                }
                Phase::Sleeps if client.is_woken => step(&("asks", c), &|next| {
                    next.clients[c].is_woken = false;
                    next.request(c, true, bounds);
                }),
                _ => {}
            }
            if client.subscription == Subscription::Sent {
                step(&("is subscribed", c), &|next| {
                    next.clients[c].subscription = Subscription::On;
                    next.clients[c].is_woken |= !bounds.has(Planted::NotAskedAfterConfirmation);
                });
            }
            if client.call {
                step(&("is called", c), &|next| {
                    let client = &mut next.clients[c];
                    client.call = false;
                    match client.phase {
                        Phase::Sleeps | Phase::Asked { .. } => client.is_woken = true,
                        _ => client.leaves = true,
                    }
                });
            }
            if client.java {
                step(&("is called by Java", c), &|next| {
                    let client = &mut next.clients[c];
                    client.java = false;
                    client.is_woken |= client.waits();
                });
            }
            if client.leaves {
                step(&("leaves the line", c), &|next| {
                    next.leave_if_called(c, bounds);
                });
            }
        }
    }

    fn is_quiet(&self, bounds: &Bounds) -> bool {
        let mut is_quiet = true;
        self.urgent(bounds, &mut |_, _| is_quiet = false);
        is_quiet
    }

    fn faults(&self, c: usize, bounds: &Bounds, step: &mut Step<'_, Self>) {
        let client = &self.clients[c];
        let may = |fault| bounds.only.is_none_or(|only| only == fault);
        if may(Fault::Kill) {
            step(&("is killed", c), &|next| {
                next.fault();
                next.is_silent |= next.clients[c].java;
                // Its permits stay taken.
                next.clients[c] = Client {
                    phase: Phase::Dead,
                    ..Client::new(next.clients[c].needs)
                };
            });
        }
        if may(Fault::Stop) && !client.is_stopped {
            step(&("stops", c), &|next| {
                next.fault();
                next.clients[c].is_stopped = true;
            });
        }
        if bounds.only.is_some() {
            return;
        }
        if client.call {
            step(&("call is lost", c), &|next| {
                next.fault();
                (next.clients[c].call, next.clients[c].has_missed) = (false, true);
            });
        }
        if client.phase == Phase::Sleeps {
            step(&("abandons its wait", c), &|next| {
                next.fault();
                let client = &mut next.clients[c];
                (client.phase, client.subscription) = (Phase::Idle, Subscription::Off);
                client.leaves |= std::mem::take(&mut client.is_woken);
            });
        }
    }

    fn fault(&mut self) {
        self.faults -= 1;
        (self.polls, self.rounds) = (0, 0);
    }

    fn java(&self, step: &mut Step<'_, Self>) {
        if self.java > 0 {
            step(&"Java releases", &Self::release_by_java);
        } else if self.free > 0 {
            step(&"Java takes a permit", &|next| {
                (next.free, next.java) = (next.free - 1, next.java + 1);
            });
        }
    }
}

impl Model for Bounds {
    type State = State;

    fn start(&self) -> State {
        State {
            free: self.permits,
            clients: self.needs.iter().copied().map(Client::new).collect(),
            faults: self.faults,
            ..State::default()
        }
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        state.urgent(self, step);
        let is_called = state.line.iter().any(|place| place.is_called);
        if is_called && !state.is_late && state.is_quiet(self) {
            step(&"the time to answer is over", &|next| {
                next.is_late = true;
                if self.only == Some(Fault::Stop) {
                    next.rounds = (next.rounds + 1).min(2);
                }
            });
        }
        if state.is_late {
            step(&"the client that has called looks", &|next| {
                next.call_before(None, false, self);
            });
        }
        if state.is_probed && state.is_quiet(self) {
            step(&"the second after the probe is over", &|next| {
                next.is_probed = false;
            });
        }
        if self.lets_pass && state.is_quiet(self) {
            step(&"others may pass, or not any more", &|next| {
                next.is_passing = !next.is_passing;
                next.polls = 0;
            });
        }
        if self.has_java {
            state.java(step);
        }
        for (c, client) in state.clients.iter().enumerate() {
            if client.phase == Phase::Dead {
                continue;
            }
            if state.faults > 0 {
                state.faults(c, self, step);
            }
            if client.is_stopped {
                step(&("continues", c), &|next| {
                    next.clients[c].is_stopped = false;
                    next.rounds = 0;
                });
                continue;
            }
            match client.phase {
                Phase::Idle => {
                    step(&("begins to wait", c), &|next| next.clients[c].begin());
                    step(&("tries", c), &|next| next.request(c, false, self));
                }
                Phase::Sleeps if !client.is_woken => {
                    step(&("gives up", c), &|next| next.request(c, false, self));
                    // Two are enough for the promise about them.
                    if state.polls < 3 {
                        step(&("timer ends", c), &|next| {
                            let is_over = next.is_late || !is_called && !next.is_probed;
                            next.polls += u8::from(is_over);
                            next.clients[c].is_woken = true;
                        });
                    }
                }
                Phase::Holds => step(&("releases", c), &|next| {
                    next.clients[c].phase = Phase::Idle;
                    next.release(client.needs, self);
                }),
                _ => {}
            }
        }
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        let holding = state.clients.iter().filter(|client| client.has_permits());
        let held: i8 = holding.map(|client| client.needs).sum();
        let is_kept = state.free >= 0 && state.free + state.java + held <= self.permits;
        promises.always(KEPT, is_kept);
        promises.of_step(state.broken);
        let called = state.line.iter().filter(|place| place.is_called).count();
        if self.needs.len() > 2 {
            promises.sometimes("two clients are called", called == 2);
        }
        if !state.is_quiet(self) {
            return;
        }
        let answers = !state.has_silent_place();
        promises.always(
            CALLED,
            !answers || state.is_passing || !state.is_due(|_| true),
        );
        promises.always(ONE_TIMER, state.polls < 2 || !state.is_due(|_| true));
        let is_kept = state.rounds < 2 || !state.is_due(Client::responds);
        promises.always(ROUNDS, is_kept);
        let mut clients = state.clients.iter();
        let is_heard = clients.any(|client| client.subscription == Subscription::On);
        promises.always(HEARD, !answers || called == state.line.len() || is_heard);
        let is_placed = |c| state.line.iter().any(|place| place.client == c);
        let mut waiting = state.clients.iter().enumerate();
        let are_placed = waiting.all(|(c, client)| {
            !client.waits() || !client.responds() || client.has_missed || is_placed(c)
        });
        promises.always(PLACED, are_placed);
    }
}

fn library(permits: i8, needs: &[i8], faults: u8) -> Bounds {
    Bounds {
        planted: None,
        permits,
        needs: needs.to_vec(),
        has_java: false,
        lets_pass: false,
        faults,
        only: None,
    }
}

fn only(fault: Fault, permits: i8, needs: &[i8], faults: u8) -> Bounds {
    with(library(permits, needs, faults), |it| it.only = Some(fault))
}

/// Of two clients, the first one can never have as many permits as it needs.
fn lets_pass(faults: u8) -> Bounds {
    with(library(1, &[2, 1], faults), |it| it.lets_pass = true)
}

fn beside_java(permits: i8, needs: &[i8], faults: u8) -> Bounds {
    with(library(permits, needs, faults), |it| it.has_java = true)
}

#[test]
fn the_promises_are_kept_without_faults() {
    keeps(library(2, &[1, 2, 1], 0));
    keeps(beside_java(2, &[1, 2], 0));
}

#[test]
fn a_fault_breaks_no_promise() {
    keeps(library(1, &[1, 1], 1));
    keeps(library(2, &[1, 2], 1));
    keeps(beside_java(1, &[1, 1], 1));
}

#[test]
fn silent_clients_and_those_that_need_too_much_keep_no_other_waiting() {
    keeps(only(Fault::Kill, 2, &[1, 2, 1], 1));
    keeps(only(Fault::Stop, 1, &[2, 1], 1));
    keeps(only(Fault::Stop, 1, &[1, 1], 2));
    keeps(lets_pass(1));
}

#[test]
#[ignore = "soak"]
fn the_promises_are_kept_to_three_clients() {
    keeps(beside_java(2, &[1, 2, 1], 0));
    keeps(library(2, &[1, 2, 1], 1));
    keeps(only(Fault::Stop, 1, &[1, 1, 1], 2));
}

#[test]
fn each_rule_is_needed() {
    for (planted, bounds, promise) in [
        (Planted::NotReserved, library(2, &[1, 1, 1], 0), ORDER),
        (Planted::PassesMany, library(2, &[1, 2, 1], 0), ORDER),
        (
            Planted::NotProbed,
            only(Fault::Kill, 2, &[1, 2, 1], 1),
            ONE_TIMER,
        ),
        (
            Planted::ProbedBesideCalled,
            library(2, &[1, 2, 1], 0),
            ORDER,
        ),
        (Planted::NeverPassed, lets_pass(0), ONE_TIMER),
        (
            Planted::OneByOne,
            only(Fault::Stop, 1, &[1, 1, 1], 2),
            ROUNDS,
        ),
        (Planted::Barges, library(2, &[1, 2, 1], 0), ORDER),
        (Planted::NoChain, library(2, &[2, 1, 1], 0), CALLED),
        (Planted::LateKept, library(1, &[1, 1, 1], 1), ONE_TIMER),
        (Planted::CalledKept, beside_java(1, &[1, 1], 0), CALLED),
        (Planted::DutyKept, library(1, &[1, 1, 1], 0), HEARD),
        (
            Planted::NotAskedAfterConfirmation,
            beside_java(1, &[1], 0),
            CALLED,
        ),
    ] {
        breaks(with(bounds, |it| it.planted = Some(planted)), promise);
    }
}
