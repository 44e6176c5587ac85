//! The possible steps from a state, and their results.

use stateright::{Model, Property};

use crate::client::{Call, Client, Op, Request};
use crate::promises;
use crate::protocol::{Planted, Protocol};
use crate::redis::{Command, Key, LEASE, Script};
use crate::state::{CLIENTS, Late, State};

/// The number is the index of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time advances for both clients and the server.
    Tick,
    /// Another program deletes the key.
    Delete,
    /// The process ends, and a new one replaces it.
    Crash(usize),
    Lock(usize),
    Nest(usize),
    Unlock(usize),
    /// Redis runs the command of the client's call.
    Run(usize),
    /// The client receives the reply.
    Receive(usize),
    /// The reply does not arrive in time: the call retries or gives up.
    Retry(usize),
    GiveUp(usize),
    /// The watchdog renews the hold, writes an unknown count, or releases an orphan.
    Renew(usize),
    WriteCount(usize),
    ReleaseOrphan(usize),
    RunWatchdog(usize),
    WatchdogReceive(usize),
    WatchdogTimeout(usize),
    /// Redis runs the next command of a late connection.
    RunLate(usize),
    /// A late connection breaks: its commands are never executed.
    Cut(usize),
}

/// The model: a protocol that takes one step at a time.
#[derive(Clone, Debug)]
pub struct Machine {
    pub protocol: Protocol,
    /// Whether states that differ only by swapping the clients are the same state.
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
        let may_fail = state.unanswered > 0;
        for (c, client) in state.clients.iter().enumerate() {
            match (&client.call, &client.hold) {
                (Some(call), _) => {
                    if call.request.reply.is_none() {
                        steps.push(Step::Run(c));
                    } else {
                        steps.push(Step::Receive(c));
                    }
                    if may_fail {
                        steps.extend([Step::Retry(c), Step::GiveUp(c)]);
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
            match &client.watchdog {
                Some(request) => {
                    if request.reply.is_none() {
                        steps.push(Step::RunWatchdog(c));
                    } else {
                        steps.push(Step::WatchdogReceive(c));
                    }
                    if may_fail {
                        steps.push(Step::WatchdogTimeout(c));
                    }
                }
                None => {
                    if self.protocol.renewals && self.renews(state, c) {
                        steps.push(Step::Renew(c));
                    }
                    if client.count_is_unknown() {
                        steps.push(Step::WriteCount(c));
                    }
                    if !client.orphans.is_empty() {
                        steps.push(Step::ReleaseOrphan(c));
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
            Step::Receive(client) => next.receive(client, &self.protocol),
            Step::Retry(client) => next.retry(client, &self.protocol),
            Step::GiveUp(client) => next.give_up(client, &self.protocol),
            Step::Renew(client) => next.renew(client),
            Step::WriteCount(client) => next.write_unknown_count(client, &self.protocol),
            Step::ReleaseOrphan(client) => {
                let ids = next.clients[client].orphans;
                let command = next.command_for(client, Script::Release, ids);
                next.clients[client].watchdog = Some(Request::new(command));
            }
            Step::RunWatchdog(client) => next.run_watchdog(client, &self.protocol),
            Step::WatchdogReceive(client) => next.watchdog_receive(client, &self.protocol),
            Step::WatchdogTimeout(client) => next.watchdog_time_out(client, &self.protocol),
            Step::RunLate(place) => next.run_late(place, &self.protocol),
            Step::Cut(place) => drop(next.late.swap_remove(place)),
        }
        let next = next.normalize(self);
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
            || self.protocol.has(Planted::RenewedAfterRelease) && !client.still_renewed.is_empty()
    }
}

impl State {
    pub fn call(&mut self, client: usize, op: Op, command: Command) {
        self.clients[client].call = Some(Call {
            op,
            request: Request::new(command),
            ambiguous: false,
        });
    }

    /// Leases run down. Holds expire in the client and in Redis.
    fn tick(&mut self) {
        let pending = self
            .key
            .is_some_and(|key| self.has_pending_request_for(key));
        let held = (0..CLIENTS).any(|client| self.clients[client].stands() && self.owns(client));
        for client in &mut self.clients {
            client.tick();
        }
        if let Some(key) = &mut self.key {
            key.unheld = if held || pending { 0 } else { key.unheld + 1 };
            key.left -= 1;
        }
        self.key = self.key.filter(|key| key.left > 0);
    }

    /// True if a sender still waits for the reply to a command that carries the key's owner id.
    fn has_pending_request_for(&self, key: Key) -> bool {
        let client = &self.clients[key.client as usize];
        let call = client.call.map(|call| call.request);
        let watchdog = client.watchdog.filter(|_| client.watchdog_is_stale());
        let mut requests = call.into_iter().chain(watchdog);
        requests.any(|request| request.command.ids.has(key.number))
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

    /// Commands that were sent may still arrive.
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
        let call = dead.call.map(|call| call.request);
        for request in call.into_iter().chain(dead.watchdog) {
            self.late.push(Late::of(&request, false));
        }
    }

    fn run_late(&mut self, place: usize, protocol: &Protocol) {
        let late = &mut self.late[place];
        let command = late.copy.take().or_else(|| late.behind.take());
        let command = command.expect("there is something on the connection");
        self.run(&command, protocol);
        if let Some(key) = &mut self.key
            && key.is_of(command.client, command.ids)
        {
            key.unheld = 0;
        }
    }
}

impl Late {
    fn is_under_way(&self) -> bool {
        self.copy.is_some() || self.behind.is_some()
    }

    /// A connection whose reply its client no longer waits for.
    pub fn of(request: &Request, kept: bool) -> Self {
        Self {
            client: request.command.client,
            copy: Some(request.command).filter(|_| request.reply.is_none()),
            behind: None,
            kept,
        }
    }
}

impl Client {
    fn tick(&mut self) {
        let stale = self.watchdog_is_stale();
        let watchdog = self.watchdog.as_mut().filter(|_| !stale);
        let requests = self.call.as_mut().map(|call| &mut call.request);
        for request in requests.into_iter().chain(watchdog) {
            if request.command.lease {
                request.age = (request.age + 1).min(LEASE);
            }
        }
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.stands()) else {
            return;
        };
        hold.left -= 1;
        hold.deleted = hold.deleted.map(|ticks| ticks + 1);
        if !hold.stands() {
            // An expired hold needs no levels and no count.
            (hold.levels, hold.recount_to) = (1, None);
            (hold.gave_up, hold.deleted) = (false, None);
        }
    }
}
