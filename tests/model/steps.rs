//! The possible steps from a state, and their results.

use stateright::{Model, Property};

use crate::client::{Client, Thread};
use crate::promises::{self, TAKEN_BACK};
use crate::protocol::{CLIENTS, Planted, Protocol};
use crate::redis::{Command, Lease, OwnerIds, Reply, Script};
use crate::state::{Late, State};

/// The first number is the index of the client, the second one that of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time advances for both clients and the server.
    Tick,
    /// Another program deletes the key, or releases the permit with this index.
    Delete(usize),
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

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
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
            } else if client.may_renew(self) {
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
        if state.deletions > 0 {
            steps.extend((0..state.redis.leases.len()).map(Step::Delete));
        }
        steps.push(Step::Tick);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let protocol = self;
        match step {
            Step::Tick => next.tick(protocol),
            Step::Delete(at) => next.delete(at),
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

impl Protocol {
    fn local_steps(&self, c: usize, client: &Client, steps: &mut Vec<Step>) {
        let levels = client.grant.map_or(0, |grant| grant.levels);
        for t in 0..self.threads[c] {
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
                    if levels < self.levels {
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
        let leases = self.redis.leases.iter();
        let in_use: Vec<bool> = leases.map(|lease| self.is_in_use(lease)).collect();
        for (lease, is_in_use) in self.redis.leases.iter_mut().zip(in_use) {
            let unused = (lease.unused + 1).min(protocol.lease);
            lease.unused = if is_in_use { 0 } else { unused };
            lease.age = (lease.age + 1).min(protocol.slice());
            lease.left = lease.left.saturating_sub(1);
        }
        if protocol.permits.is_none() {
            self.redis.expire();
        }
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
            if protocol.permits.is_some() {
                // The guard of the permit releases it.
                self.release_in_background(client, OwnerIds::of(id));
            }
        } else if idle == Some(protocol.linger()) && !protocol.has(Planted::IdleKept) {
            this.grant = None;
            self.release_in_background(client, OwnerIds::of(id));
        }
    }

    /// True if a thread uses the lease, or a sender still waits for the reply to a command that may
    /// extend it.
    fn is_in_use(&self, lease: &Lease) -> bool {
        let client = &self.clients[lease.client as usize];
        let call = client.call.map(|call| call.command);
        let renewal = client
            .renewal
            .filter(|_| client.renewal_is_stale() || client.uses_grant())
            .map(|renewal| renewal.command);
        let mut extending = call
            .filter(|command| command.script == Script::Acquire)
            .into_iter()
            .chain(renewal);
        client.grant_has(OwnerIds::of(lease.id)) && client.uses_grant()
            || extending.any(|command| command.ids.has(lease.id))
    }

    fn delete(&mut self, at: usize) {
        self.deletions -= 1;
        let lease = self.redis.leases.remove(at);
        self.redis.available += 1;
        let grant = &mut self.clients[lease.client as usize].grant;
        if let Some(grant) = grant.as_mut().filter(|grant| grant.id == lease.id) {
            grant.deleted.get_or_insert(0);
        }
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
        let live = self.redis.leases.iter().filter(|lease| lease.left > 0);
        let live: Vec<Lease> = live.copied().collect();
        let reply = self.run(&command, protocol);
        for lease in &mut self.redis.leases {
            // What is late may extend a lease once more, and revives none.
            let was_live = live.iter().any(|before| before.id == lease.id);
            if was_live && lease.is_of(client, command.ids) {
                lease.unused = 0;
            }
        }
        let connected = self.breaks == protocol.breaks && self.crashes == protocol.crashes;
        let granted = command.script == Script::Acquire && matches!(reply, Reply::Done(_));
        if granted && connected && !open && !behind.has(command.to) {
            self.broken = Some(TAKEN_BACK);
        }
    }
}
