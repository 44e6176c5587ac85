//! The possible steps from a state, and their results.

use stateright::{Model, Property};

use crate::client::{Client, Thread};
use crate::promises::{self, TAKEN_BACK};
use crate::protocol::{CLIENTS, Planted, Protocol};
use crate::redis::{Command, OwnerIds, Reply, Script};
use crate::state::{Late, State};

/// The first number is the index of the client, the second one that of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time advances for both clients and the server.
    Tick,
    /// Another program deletes the key.
    Delete,
    /// The process ends, and a new one replaces it.
    Crash(usize),
    Lock(usize, usize),
    Unlock(usize, usize),
    /// A waiting thread gives up.
    Leave(usize, usize),
    /// The thread to which the grant was handed notices it.
    Take(usize, usize),
    /// The thread with the ticket sends an acquire.
    Acquire(usize),
    /// Redis runs the command of the client's call.
    Run(usize),
    /// The client receives the reply.
    Receive(usize),
    /// The reply does not arrive in time: the call retries or gives up.
    Retry(usize),
    GiveUp(usize),
    /// The watchdog renews the grant, or releases orphans.
    Renew(usize),
    RunRenewal(usize),
    ReceiveLoss(usize),
    TimeOutRenewal(usize),
    ReleaseOrphans(usize),
    /// Redis runs the next command of a late connection.
    RunLate(usize),
    /// Nothing can be sent on a late connection any more.
    Break(usize),
}

/// The model: a protocol that takes one step at a time.
#[derive(Clone, Debug)]
pub struct Machine {
    pub protocol: Protocol,
}

impl Model for Machine {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.protocol)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let may_fail = state.unanswered > 0;
        for (c, client) in state.clients.iter().enumerate() {
            self.local_steps(c, client, steps);
            if let Some(call) = &client.call {
                steps.push(match call.reply {
                    None => Step::Run(c),
                    Some(_) => Step::Receive(c),
                });
                if may_fail {
                    steps.extend([Step::Retry(c), Step::GiveUp(c)]);
                }
            } else if client.has(Thread::Front) {
                steps.push(Step::Acquire(c));
            }
            if let Some(renewal) = &client.renewal {
                steps.push(match renewal.failed {
                    false => Step::RunRenewal(c),
                    true => Step::ReceiveLoss(c),
                });
                if may_fail {
                    steps.push(Step::TimeOutRenewal(c));
                }
            } else if client.may_renew(&self.protocol) {
                steps.push(Step::Renew(c));
            }
            if !client.orphans.is_empty() {
                steps.push(Step::ReleaseOrphans(c));
            }
            if state.crashes > 0 {
                steps.push(Step::Crash(c));
            }
        }
        for (place, late) in state.late.iter().enumerate() {
            if late.copy.is_some() || !late.behind.is_empty() {
                steps.push(Step::RunLate(place));
            }
            if state.breaks > 0 && (late.open || !late.behind.is_empty()) {
                steps.push(Step::Break(place));
            }
        }
        if state.deletions > 0 && state.redis.key.is_some() {
            steps.push(Step::Delete);
        }
        steps.push(Step::Tick);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let protocol = &self.protocol;
        match step {
            Step::Tick => next.tick(protocol),
            Step::Delete => next.delete(),
            Step::Crash(client) => next.crash(client),
            Step::Lock(client, thread) => next.lock(client, thread, protocol),
            Step::Unlock(client, thread) => next.unlock(client, thread, protocol),
            Step::Leave(client, thread) => next.leave(client, thread, protocol),
            Step::Take(client, thread) => next.hold(client, thread, protocol),
            Step::Acquire(client) => next.acquire(client, protocol),
            Step::Run(client) => next.run_call(client, protocol),
            Step::Receive(client) => next.receive(client, protocol),
            Step::Retry(client) => next.retry(client, protocol),
            Step::GiveUp(client) => next.give_up(client, protocol),
            Step::Renew(client) => next.renew(client, protocol),
            Step::RunRenewal(client) => next.run_renewal(client, protocol),
            Step::ReceiveLoss(client) => next.receive_loss(client, protocol),
            Step::TimeOutRenewal(client) => next.time_out_renewal(client),
            Step::ReleaseOrphans(client) => next.release_orphans(client, protocol),
            Step::RunLate(place) => next.run_late(place, protocol),
            Step::Break(place) => {
                next.breaks -= 1;
                let late = &mut next.late[place];
                (late.behind, late.open) = (OwnerIds::default(), false);
            }
        }
        let next = next.normalize(protocol);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all()
    }
}

impl Machine {
    fn local_steps(&self, c: usize, client: &Client, steps: &mut Vec<Step>) {
        let levels = client.grant.map_or(0, |grant| grant.levels);
        for t in 0..self.protocol.threads[c] {
            if t > 0 && client.threads[t] == client.threads[t - 1] {
                // The threads are equivalent.
                continue;
            }
            match client.threads[t] {
                Thread::Out => steps.push(Step::Lock(c, t)),
                Thread::Queued => steps.push(Step::Leave(c, t)),
                Thread::Front if client.call.is_none() => steps.push(Step::Leave(c, t)),
                Thread::Front => {}
                Thread::Handed => steps.extend([Step::Take(c, t), Step::Leave(c, t)]),
                Thread::Lost => steps.push(Step::Unlock(c, t)),
                Thread::Holding => {
                    steps.push(Step::Unlock(c, t));
                    if levels < self.protocol.levels {
                        steps.push(Step::Lock(c, t));
                    }
                }
            }
        }
    }
}

impl State {
    /// Leases run down. Grants expire in the client and in Redis, and idle ones are released.
    fn tick(&mut self, protocol: &Protocol) {
        let extendable = self.key_may_be_extended();
        let used = (0..CLIENTS).any(|c| self.owns(c) && self.clients[c].uses_grant());
        if let Some(key) = &mut self.redis.key {
            key.unused = if used || extendable {
                0
            } else {
                key.unused + 1
            };
            key.age = (key.age + 1).min(protocol.slice());
            key.left -= 1;
        }
        self.redis.key = self.redis.key.filter(|key| key.left > 0);
        for client in 0..CLIENTS {
            self.tick_client(client, protocol);
        }
    }

    fn tick_client(&mut self, client: usize, protocol: &Protocol) {
        let this = &mut self.clients[client];
        if let Some(call) = &mut this.call
            && call.command.script == Script::Acquire
        {
            call.age = (call.age + 1).min(protocol.lease);
        }
        if let Some(renewal) = &mut this.renewal {
            renewal.age = (renewal.age + 1).min(protocol.lease);
        }
        let Some(grant) = &mut this.grant else { return };
        grant.left -= 1;
        grant.age = (grant.age + 1).min(protocol.slice());
        grant.deleted = grant.deleted.map(|ticks| ticks + 1);
        grant.idle = grant.idle.map(|ticks| (ticks + 1).min(protocol.linger()));
        let (id, left, idle) = (grant.id, grant.left, grant.idle);
        if left == 0 {
            this.end_grant();
        } else if idle == Some(protocol.linger()) && !protocol.has(Planted::IdleKept) {
            this.grant = None;
            self.release_in_background(client, OwnerIds::of(id));
        }
    }

    /// True if a sender still waits for the reply to a command that may extend the lease of the
    /// key.
    fn key_may_be_extended(&self) -> bool {
        let Some(key) = self.redis.key else {
            return false;
        };
        let client = &self.clients[key.client as usize];
        let call = client.call.map(|call| call.command);
        let renewal = client
            .renewal
            .filter(|_| client.renewal_is_stale() || client.uses_grant())
            .map(|renewal| renewal.command);
        call.filter(|command| command.script == Script::Acquire)
            .into_iter()
            .chain(renewal)
            .any(|command| command.ids.has(key.id))
    }

    fn delete(&mut self) {
        self.deletions -= 1;
        for client in 0..CLIENTS {
            if self.owns(client)
                && let Some(grant) = &mut self.clients[client].grant
            {
                grant.deleted.get_or_insert(0);
            }
        }
        self.redis.key = None;
    }

    /// Commands that were sent may still arrive.
    fn crash(&mut self, client: usize) {
        self.crashes -= 1;
        let dead = std::mem::take(&mut self.clients[client]);
        self.close_connections(client);
        let call = dead.call.filter(|call| call.reply.is_none());
        let renewal = dead.renewal.filter(|renewal| !renewal.failed);
        let sent = call.map(|call| call.command).into_iter();
        for command in sent.chain(renewal.map(|renewal| renewal.command)) {
            self.late.push(Late::new(client, Some(command), false));
        }
    }

    fn run_late(&mut self, place: usize, protocol: &Protocol) {
        let late = &mut self.late[place];
        let client = late.client as usize;
        let command = late.copy.take().unwrap_or_else(|| {
            Command::new(Script::Release, client, std::mem::take(&mut late.behind))
        });
        let (behind, open) = (late.behind, late.open);
        let reply = self.run(&command, protocol);
        if let Some(key) = &mut self.redis.key
            && key.is_of(client, command.ids)
        {
            key.unused = 0;
        }
        let connected = self.breaks == protocol.breaks && self.crashes == protocol.crashes;
        let granted = command.script == Script::Acquire && matches!(reply, Reply::Done(_));
        if granted && connected && !open && !behind.has(command.to) {
            self.broken.insert(TAKEN_BACK);
        }
    }
}
