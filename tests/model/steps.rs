//! What can happen next, and what then is.

use stateright::{Model, Property};

use crate::client::{Call, Client, Op, Round};
use crate::promises;
use crate::protocol::{Planted, Protocol};
use crate::redis::{Command, Key, LEASE, Script};
use crate::state::{CLIENTS, Late, State};

/// The number is that of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time goes by, for all alike.
    Tick,
    /// Somebody deletes the key behind the holder's back.
    Delete,
    /// The process ends, and a fresh one takes its place.
    Crash(usize),
    Lock(usize),
    Nest(usize),
    Unlock(usize),
    /// Redis runs the command of the client's call.
    Run(usize),
    /// The reply arrives.
    Answer(usize),
    /// No reply came in time: the call asks again, or gives up.
    AskAgain(usize),
    GiveUp(usize),
    /// The watchdog renews the hold, writes a count in doubt, or releases what was given up.
    Renew(usize),
    Settle(usize),
    Withdraw(usize),
    RunDog(usize),
    AnswerDog(usize),
    NoAnswerDog(usize),
    /// Redis runs the next command of a late connection.
    RunLate(usize),
    /// A late connection is cut: what is on it is never executed.
    Cut(usize),
}

/// The protocol as a machine that takes one step at a time.
#[derive(Clone, Debug)]
pub struct Machine {
    pub protocol: Protocol,
    /// Whether states that differ only in which client is which are the same one.
    pub symmetric: bool,
}

impl Model for Machine {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.protocol)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if !self.protocol.delays
            && let Some(place) = state.late.iter().position(Late::is_under_way)
        {
            steps.push(Step::RunLate(place));
            if state.late[place].kept {
                steps.push(Step::Cut(place));
            }
            return;
        }
        let troubled = state.unanswered > 0;
        for (c, client) in state.clients.iter().enumerate() {
            match (&client.call, &client.hold) {
                (Some(call), _) => {
                    if call.round.reply.is_none() {
                        steps.push(Step::Run(c));
                    } else {
                        steps.push(Step::Answer(c));
                    }
                    if troubled {
                        steps.extend([Step::AskAgain(c), Step::GiveUp(c)]);
                    }
                }
                (None, None) => steps.push(Step::Lock(c)),
                (None, Some(hold)) => {
                    steps.push(Step::Unlock(c));
                    if hold.stands() && hold.levels == 1 {
                        steps.push(Step::Nest(c));
                    }
                }
            }
            match &client.dog {
                Some(round) => {
                    if round.reply.is_none() {
                        steps.push(Step::RunDog(c));
                    } else {
                        steps.push(Step::AnswerDog(c));
                    }
                    if troubled {
                        steps.push(Step::NoAnswerDog(c));
                    }
                }
                None => {
                    if self.protocol.renewals && self.renews(state, c) {
                        steps.push(Step::Renew(c));
                    }
                    if client.is_in_doubt() {
                        steps.push(Step::Settle(c));
                    }
                    if !client.withdrawals.is_empty() {
                        steps.push(Step::Withdraw(c));
                    }
                }
            }
            if state.crashes > 0 {
                steps.push(Step::Crash(c));
            }
        }
        for (place, late) in state.late.iter().enumerate() {
            if late.is_under_way() {
                steps.push(Step::RunLate(place));
            }
            steps.push(Step::Cut(place));
        }
        if state.deletions > 0 && state.key.is_some() {
            steps.push(Step::Delete);
        }
        steps.push(Step::Tick);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Tick => next.tick(),
            Step::Delete => next.delete(),
            Step::Crash(client) => next.crash(client),
            Step::Lock(client) => {
                let command = next.acquire(client);
                next.call(client, Op::Acquire, command);
            }
            Step::Nest(client) => {
                let command = next.recount(client, 2, true, &self.protocol);
                next.call(client, Op::Nest, command);
            }
            Step::Unlock(client) => next.unlock(client, &self.protocol),
            Step::Run(client) => next.run_call(client, &self.protocol),
            Step::Answer(client) => next.answer(client, &self.protocol),
            Step::AskAgain(client) => next.ask_again(client, &self.protocol),
            Step::GiveUp(client) => next.give_up(client, &self.protocol),
            Step::Renew(client) => next.renew(client),
            Step::Settle(client) => next.settle(client, &self.protocol),
            Step::Withdraw(client) => {
                let names = next.clients[client].withdrawals;
                let command = next.about(client, Script::Release, names);
                next.clients[client].dog = Some(Round::new(command));
            }
            Step::RunDog(client) => next.run_dog(client, &self.protocol),
            Step::AnswerDog(client) => next.answer_dog(client, &self.protocol),
            Step::NoAnswerDog(client) => next.no_answer_dog(client, &self.protocol),
            Step::RunLate(place) => next.run_late(place, &self.protocol),
            Step::Cut(place) => drop(next.late.swap_remove(place)),
        }
        let next = next.tidy(self);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all()
    }
}

impl Machine {
    fn renews(&self, state: &State, client: usize) -> bool {
        let client = &state.clients[client];
        client.stands()
            || self.protocol.has(Planted::RenewedAfterRelease) && !client.unforgotten.is_empty()
    }
}

impl State {
    pub fn call(&mut self, client: usize, op: Op, command: Command) {
        self.clients[client].call = Some(Call {
            op,
            round: Round::new(command),
            ambiguous: false,
        });
    }

    /// Leases run, and at their ends holds expire: here and in Redis alike.
    fn tick(&mut self) {
        let busy = self.key.is_some_and(|key| self.is_busy_with(key));
        let held = (0..CLIENTS).any(|client| self.clients[client].stands() && self.owns(client));
        for client in &mut self.clients {
            client.tick();
        }
        if let Some(key) = &mut self.key {
            key.unheld = if held || busy { 0 } else { key.unheld + 1 };
            key.left -= 1;
        }
        self.key = self.key.filter(|key| key.left > 0);
    }

    /// A command that its sender still waits for, and that was sent while the key was its own.
    fn is_busy_with(&self, key: Key) -> bool {
        let client = &self.clients[key.client as usize];
        let call = client.call.map(|call| call.round);
        let dog = client.dog.filter(|_| client.asks_in_vain());
        let mut rounds = call.into_iter().chain(dog);
        rounds.any(|round| round.command.names.has(key.number))
    }

    fn delete(&mut self) {
        self.deletions -= 1;
        for client in 0..CLIENTS {
            if self.owns(client)
                && let Some(hold) = self.clients[client].hold.as_mut().filter(|h| h.stands())
            {
                hold.deleted.get_or_insert(0);
            }
        }
        self.key = None;
    }

    /// What was sent may still arrive.
    fn crash(&mut self, client: usize) {
        self.crashes -= 1;
        let dead = std::mem::take(&mut self.clients[client]);
        for late in self
            .late
            .iter_mut()
            .filter(|late| late.client as usize == client)
        {
            late.kept = false;
        }
        let call = dead.call.map(|call| call.round);
        for round in call.into_iter().chain(dead.dog) {
            self.late.push(Late::of(&round, false));
        }
    }

    fn run_late(&mut self, place: usize, protocol: &Protocol) {
        let late = &mut self.late[place];
        let command = late.copy.take().or_else(|| late.behind.take());
        let command = command.expect("there is something on the connection");
        self.run(&command, protocol);
        if let Some(key) = &mut self.key
            && key.is_of(command.client, command.names)
        {
            key.unheld = 0;
        }
    }
}

impl Late {
    fn is_under_way(&self) -> bool {
        self.copy.is_some() || self.behind.is_some()
    }

    /// A connection on which a reply was not waited for any longer.
    pub fn of(round: &Round, kept: bool) -> Self {
        Self {
            client: round.command.client,
            copy: Some(round.command).filter(|_| round.reply.is_none()),
            behind: None,
            kept,
        }
    }
}

impl Client {
    fn tick(&mut self) {
        let in_vain = self.asks_in_vain();
        let dog = self.dog.as_mut().filter(|_| !in_vain);
        let rounds = self.call.as_mut().map(|call| &mut call.round);
        for round in rounds.into_iter().chain(dog) {
            if round.command.lease {
                round.age = (round.age + 1).min(LEASE);
            }
        }
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.stands()) else {
            return;
        };
        hold.left -= 1;
        hold.deleted = hold.deleted.map(|ticks| ticks + 1);
        if !hold.stands() {
            // Its levels and the rest are over with it.
            (hold.levels, hold.settling) = (1, None);
            (hold.gave_up, hold.deleted) = (false, None);
        }
    }
}
