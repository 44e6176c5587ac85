//! What is checked, and the possible steps.

use stateright::{Model, Property};

use super::state::{Client, Phase, State, Subscription};
use crate::check::by_step;

const KEPT: &str = "no more permits are taken than are free";
pub const CALLED: &str = "free permits are taken without a timer while the called clients answer";
pub const ONE_TIMER: &str = "free permits are taken after one timer of the waiting clients";
pub const ORDER: &str = "a waiting client does not pass another one that was before it";
pub const HEARD: &str = "a client in the line listens to Java";
const PLACED: &str = "a client that waits has a place";

/// What is checked, and how many failures occur.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub planted: Option<Planted>,
    pub permits: i8,
    /// How many permits each client wants.
    pub needs: Vec<i8>,
    pub has_java: bool,
    pub faults: u8,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Permits of called clients are given to others, too.
    NotReserved,
    /// A client that needs more than are free does not keep those behind it from a call.
    PassesMany,
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

/// The number is the index of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Wait(usize),
    /// A thread asks once, because it does not wait.
    Try(usize),
    Poll(usize),
    GiveUp(usize),
    /// The thread ends its wait without a request that is executed.
    Abandon(usize),
    Release(usize),
    JavaTakes,
    JavaReleases,
    Ask(usize),
    Receive(usize),
    Subscribe(usize),
    Deliver(usize),
    DeliverJava(usize),
    Leave(usize),
    /// The time to answer is over.
    Time,
    Kill(usize),
    Stop(usize),
    Continue(usize),
    LoseCall(usize),
}

impl State {
    /// The steps that need no timer and no decision.
    fn urgent(&self, steps: &mut Vec<Step>) {
        for (c, client) in self.clients.iter().enumerate() {
            if !client.responds() {
                continue;
            }
            match client.phase {
                Phase::Asked { .. } => steps.push(Step::Receive(c)),
                Phase::Sleeps if client.is_woken => steps.push(Step::Ask(c)),
                _ => {}
            }
            for (is_possible, step) in [
                (
                    client.subscription == Subscription::Sent,
                    Step::Subscribe(c),
                ),
                (client.call, Step::Deliver(c)),
                (client.java, Step::DeliverJava(c)),
                (client.leaves, Step::Leave(c)),
            ] {
                if is_possible {
                    steps.push(step);
                }
            }
        }
    }

    pub fn is_quiet(&self) -> bool {
        let mut steps = Vec::new();
        self.urgent(&mut steps);
        steps.is_empty()
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            free: self.permits,
            clients: self.needs.iter().copied().map(Client::new).collect(),
            faults: self.faults,
            ..State::default()
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        state.urgent(steps);
        if state.is_quiet() && state.line.iter().any(|place| place.is_called) && !state.is_late {
            steps.push(Step::Time);
        }
        if self.has_java {
            if state.java > 0 {
                steps.push(Step::JavaReleases);
            } else if state.free > 0 {
                steps.push(Step::JavaTakes);
            }
        }
        for (c, client) in state.clients.iter().enumerate() {
            if client.phase == Phase::Dead {
                continue;
            }
            if state.faults > 0 {
                steps.push(Step::Kill(c));
                if !client.is_stopped {
                    steps.push(Step::Stop(c));
                }
                if client.call {
                    steps.push(Step::LoseCall(c));
                }
                if client.phase == Phase::Sleeps {
                    steps.push(Step::Abandon(c));
                }
            }
            if client.is_stopped {
                steps.push(Step::Continue(c));
                continue;
            }
            match client.phase {
                Phase::Idle => steps.extend([Step::Wait(c), Step::Try(c)]),
                Phase::Sleeps if !client.is_woken => {
                    steps.push(Step::GiveUp(c));
                    // Two are enough for the promise about them.
                    if state.polls < 3 {
                        steps.push(Step::Poll(c));
                    }
                }
                Phase::Holds => steps.push(Step::Release(c)),
                _ => {}
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let take = |next: &mut State, c: usize, waits| {
            let is_granted = next.ask(c, waits, self);
            next.clients[c].phase = match (is_granted, waits) {
                (true, false) => Phase::Holds,
                (false, false) => Phase::Idle,
                (is_granted, true) => Phase::Asked {
                    is_granted,
                    listens: next.listener == Some(c),
                },
            };
            next.is_silent &= !waits;
            next.clients[c].has_missed = false;
            if is_granted {
                next.polls = 0;
            }
            if !waits {
                next.clients[c].subscription = Subscription::Off;
            }
        };
        match step {
            Step::Wait(c) => {
                next.clients[c].phase = Phase::Sleeps;
                next.clients[c].wake();
                // Its thread answers instead.
                next.clients[c].leaves = false;
            }
            Step::Try(c) | Step::GiveUp(c) => take(&mut next, c, false),
            Step::Abandon(c) => {
                next.faults -= 1;
                let client = &mut next.clients[c];
                (client.phase, client.subscription) = (Phase::Idle, Subscription::Off);
                client.leaves |= std::mem::take(&mut client.is_woken);
            }
            Step::Poll(c) => {
                let is_called = state.line.iter().any(|place| place.is_called);
                next.polls += u8::from(state.is_late || !is_called);
                next.clients[c].wake();
            }
            Step::Release(c) => {
                next.clients[c].phase = Phase::Idle;
                next.release(state.clients[c].needs, self);
                next.polls = 0;
            }
            Step::JavaTakes => (next.free, next.java) = (state.free - 1, state.java + 1),
            Step::JavaReleases => {
                next.release_by_java();
                next.polls = 0;
            }
            Step::Ask(c) => {
                next.clients[c].is_woken = false;
                take(&mut next, c, true);
            }
            Step::Receive(c) => {
                let client = &mut next.clients[c];
                let Phase::Asked {
                    is_granted,
                    listens,
                } = client.phase
                else {
                    return None;
                };
                client.phase = if is_granted {
                    Phase::Holds
                } else {
                    Phase::Sleeps
                };
                client.subscription = match client.subscription {
                    _ if !listens => Subscription::Off,
                    Subscription::Off => Subscription::Sent,
                    subscription => subscription,
                };
                if is_granted {
                    (client.subscription, client.is_woken) = (Subscription::Off, false);
                }
            }
            Step::Subscribe(c) => {
                next.clients[c].subscription = Subscription::On;
                if !self.has(Planted::NotAskedAfterConfirmation) {
                    next.clients[c].wake();
                }
            }
            Step::Deliver(c) => {
                let client = &mut next.clients[c];
                client.call = false;
                match client.phase {
                    Phase::Sleeps | Phase::Asked { .. } => client.wake(),
                    _ => client.leaves = true,
                }
            }
            Step::DeliverJava(c) => {
                let client = &mut next.clients[c];
                client.java = false;
                if client.waits() {
                    client.wake();
                }
            }
            Step::Leave(c) => {
                next.clients[c].leaves = false;
                let place = state.line.iter().find(|place| place.client == c);
                let is_called = place.is_some_and(|place| place.is_called);
                if is_called || state.listener == Some(c) {
                    next.leave(c, self);
                }
            }
            Step::Time => next.is_late = true,
            Step::Kill(c) => {
                next.faults -= 1;
                next.is_silent |= state.clients[c].java;
                // Its permits stay taken.
                let client = &mut next.clients[c];
                *client = Client::new(client.needs);
                client.phase = Phase::Dead;
            }
            Step::Stop(c) => {
                next.faults -= 1;
                next.clients[c].is_stopped = true;
            }
            Step::Continue(c) => next.clients[c].is_stopped = false,
            Step::LoseCall(c) => {
                next.faults -= 1;
                (next.clients[c].call, next.clients[c].has_missed) = (false, true);
                next.polls = 0;
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(KEPT, |bounds: &Self, state: &State| {
                let holds = |client: &&Client| {
                    matches!(client.phase, Phase::Holds)
                        || matches!(
                            client.phase,
                            Phase::Asked {
                                is_granted: true,
                                ..
                            }
                        )
                };
                let held = state.clients.iter().filter(holds);
                let held: i8 = held.map(|client| client.needs).sum();
                state.free >= 0 && state.free + state.java + held <= bounds.permits
            }),
            Property::always(CALLED, |_, state: &State| {
                state.is_silent || !state.is_quiet() || state.has_silent_place() || !state.is_due()
            }),
            Property::always(ONE_TIMER, |_, state: &State| {
                state.polls < 2 || !state.is_quiet() || !state.is_due()
            }),
            by_step!(ORDER),
            Property::always(HEARD, |_, state: &State| {
                let mut waiting = state.line.iter().filter(|place| !place.is_called);
                let is_on = |client: &Client| client.subscription == Subscription::On;
                !state.is_quiet()
                    || state.has_silent_place()
                    || waiting.next().is_none()
                    || state.clients.iter().any(is_on)
            }),
            Property::always(PLACED, |_, state: &State| {
                let is_placed = |c| state.line.iter().any(|place| place.client == c);
                let mut waiting = state.clients.iter().enumerate();
                !state.is_quiet()
                    || waiting.all(|(c, client)| {
                        !client.waits() || !client.responds() || client.has_missed || is_placed(c)
                    })
            }),
            Property::sometimes("two clients are called", |bounds: &Self, state: &State| {
                bounds.needs.len() < 3
                    || state.line.iter().filter(|place| place.is_called).count() == 2
            }),
        ]
    }
}
