//! The possible steps from a state, and their results.

use crate::check::{Model, Promises, Step};
use crate::client::{Client, Thread};
use crate::promises::{self, TAKEN_BACK};
use crate::protocol::{CLIENTS, Planted, Protocol};
use crate::redis::{Command, Lease, OwnerIds, Reply, Script};
use crate::state::{Late, State};

impl Model for Protocol {
    type State = State;

    fn start(&self) -> State {
        State::new(self)
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        for (c, client) in state.clients.iter().enumerate() {
            self.local_steps(c, client, step);
            self.requests(state, c, client, step);
            if !client.orphans.is_empty() {
                step(&("releases orphans", c), &|next| {
                    next.release_orphans(c, self);
                });
            }
            if state.crashes > 0 {
                // A new process replaces it.
                step(&("crashes", c), &|next| next.crash(c));
            }
        }
        for (at, late) in state.late.iter().enumerate() {
            if late.copy.is_some() || !late.behind.is_empty() {
                step(&("runs late", at), &|next| next.run_late(at, self));
            }
            if state.breaks > 0 && (late.open || !late.behind.is_empty()) {
                step(&("late connection breaks", at), &|next| {
                    next.breaks -= 1;
                    let late = &mut next.late[at];
                    (late.behind, late.open) = (OwnerIds::default(), false);
                });
            }
        }
        if state.deletions > 0 {
            for at in 0..state.redis.leases.len() {
                step(&("lease is deleted", at), &|next| next.delete(at));
            }
        }
        step(&"time passes", &|next| next.tick(self));
    }

    fn normalize(&self, state: &mut State) {
        state.normalize(self);
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        promises::check(self, state, promises);
    }
}

impl Protocol {
    fn local_steps(&self, c: usize, client: &Client, step: &mut Step<'_, State>) {
        let levels = client.grant.map_or(0, |grant| grant.levels);
        for t in 0..self.threads[c] {
            let thread = client.threads[t];
            if t > 0 && thread == client.threads[t - 1] {
                // The threads are equivalent.
                continue;
            }
            let may_nest = thread == Thread::Holding && levels < self.levels;
            if thread == Thread::Out || may_nest {
                step(&("locks", c, t), &|next| next.lock(c, t, self));
            }
            if thread == Thread::Handed {
                // It notices the grant that was handed to it.
                step(&("takes", c, t), &|next| next.hold(c, t, self));
            }
            match thread {
                Thread::Holding | Thread::Lost => {
                    step(&("unlocks", c, t), &|next| next.unlock(c, t, self));
                }
                Thread::Out => {}
                Thread::Front if client.call.is_some() => {}
                Thread::Front | Thread::Queued | Thread::Handed => {
                    step(&("gives up", c, t), &|next| next.leave(c, t, self));
                }
            }
        }
    }

    /// What may become of the call of the thread with the ticket, and of a renewal.
    fn requests(&self, state: &State, c: usize, client: &Client, step: &mut Step<'_, State>) {
        let may_fail = state.unanswered > 0;
        if let Some(call) = &client.call {
            match call.reply {
                None => step(&("runs", c), &|next| next.run_call(c, self)),
                Some(_) => {
                    step(&("has its reply", c), &|next| next.receive(c, self));
                }
            }
            if may_fail {
                step(&("retries", c), &|next| next.retry(c, self));
                step(&("ends its call", c), &|next| next.give_up(c, self));
            }
        } else if client.has(Thread::Front) {
            step(&("sends an acquire", c), &|next| next.acquire(c, self));
        }
        if let Some(renewal) = &client.renewal {
            if renewal.failed {
                step(&("learns of a loss", c), &|next| next.receive_loss(c, self));
            } else {
                step(&("runs renewal", c), &|next| next.run_renewal(c, self));
            }
            if may_fail {
                step(&("renewal has no reply", c), &|next| {
                    next.time_out_renewal(c);
                });
            }
        } else if client.may_renew(self) {
            step(&("renews", c), &|next| next.renew(c, self));
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
