//! What threads of a client do without Redis: the queue, hand-over, lingering, and losses.

use crate::client::Thread;
use crate::promises::{FALSE_LOSS, NOT_PAST_SLICE, TOKENS};
use crate::protocol::{Planted, Protocol};
use crate::redis::{Command, OwnerIds, Script};
use crate::state::State;

impl State {
    pub fn lock(&mut self, client: usize, thread: usize, protocol: &Protocol) {
        let this = &mut self.clients[client];
        let ticket_is_free = this.ticket_is_free();
        match &mut this.grant {
            Some(grant) if this.threads[thread] == Thread::Holding => grant.levels += 1,
            Some(grant) if grant.idle.is_some() => self.hold(client, thread, protocol),
            _ if ticket_is_free => this.threads[thread] = Thread::Front,
            _ => this.threads[thread] = Thread::Queued,
        }
    }

    /// Gives the thread a hold on the grant.
    pub fn hold(&mut self, client: usize, thread: usize, protocol: &Protocol) {
        let this = &mut self.clients[client];
        let Some(grant) = &mut this.grant else { return };
        this.threads[thread] = Thread::Holding;
        grant.idle = None;
        grant.levels = 1;
        if !protocol.fenced {
            return;
        }
        let token = grant.next_token;
        if !protocol.has(Planted::TokenTwice) {
            grant.next_token += 1;
        }
        grant.tokens = grant.tokens.saturating_sub(1);
        if token <= self.highest_token && grant.deleted.is_none() {
            self.broken = Some(TOKENS);
        }
        self.highest_token = self.highest_token.max(token);
    }

    pub fn unlock(&mut self, client: usize, thread: usize, protocol: &Protocol) {
        let this = &mut self.clients[client];
        let holds = this.threads[thread] == Thread::Holding;
        match &mut this.grant {
            Some(grant) if holds && grant.levels > 1 => {
                grant.levels -= 1;
                if protocol.has(Planted::PassedOnWhileHeld) {
                    self.pass_on(client, protocol);
                } else if protocol.has(Planted::CountBelieved) {
                    let ids = OwnerIds::of(grant.id);
                    self.run(&Command::new(Script::Release, client, ids), protocol);
                }
            }
            Some(grant) if holds => {
                let ids = OwnerIds::of(grant.id);
                this.threads[thread] = Thread::Out;
                if !self.pass_on(client, protocol) {
                    // The thread keeps the ticket until the release ends.
                    self.clients[client].threads[thread] = Thread::Front;
                    self.call(client, Command::new(Script::Release, client, ids));
                }
            }
            grant => {
                if let Some(grant) = grant.filter(|_| protocol.has(Planted::UnlockUnchecked)) {
                    this.orphans = this.orphans.with(OwnerIds::of(grant.id));
                }
                this.threads[thread] = Thread::Out;
            }
        }
    }

    /// A thread stops waiting.
    pub fn leave(&mut self, client: usize, thread: usize, protocol: &Protocol) {
        let this = &mut self.clients[client];
        let handed = this.threads[thread] == Thread::Handed;
        this.threads[thread] = Thread::Out;
        if let Some(grant) = this.grant.filter(|_| handed)
            && !protocol.has(Planted::HandedToLeaver)
            && !self.pass_on(client, protocol)
        {
            self.release_in_background(client, OwnerIds::of(grant.id));
        }
        self.clients[client].pass_ticket();
    }

    /// Hands the grant to the first waiting thread, or lets it linger. If neither is allowed, the
    /// client has no grant any more, and the result is false.
    fn pass_on(&mut self, client: usize, protocol: &Protocol) -> bool {
        let this = &mut self.clients[client];
        let next = this.thread_in(Thread::Queued);
        let Some(grant) = &mut this.grant else {
            return false;
        };
        grant.levels = 1;
        let has_token =
            !protocol.fenced || grant.tokens > 0 || protocol.has(Planted::BlockExceeded);
        let in_slice = grant.age < protocol.slice() || protocol.has(Planted::HandedOverPastSlice);
        let ids = OwnerIds::of(grant.id);
        match next {
            Some(next) if has_token && in_slice => {
                this.threads[next] = Thread::Handed;
                if let Some(renewal) = &mut this.renewal {
                    renewal.handed_over = protocol.has(Planted::LossToFormerHolder);
                }
                let mut late = self
                    .redis
                    .leases
                    .iter()
                    .filter(|lease| lease.age >= protocol.slice());
                if late.any(|lease| lease.is_of(client, ids)) {
                    self.broken = Some(NOT_PAST_SLICE);
                }
                true
            }
            None if has_token && protocol.lingers => {
                grant.idle = Some(0);
                true
            }
            _ => {
                this.grant = None;
                false
            }
        }
    }

    /// The watchdog releases these owner ids.
    pub fn release_in_background(&mut self, client: usize, ids: OwnerIds) {
        let orphans = &mut self.clients[client].orphans;
        *orphans = orphans.with(ids);
    }

    /// Redis replied that it does not have the client's grant.
    pub fn lose(&mut self, client: usize, protocol: &Protocol) {
        if self.owns(client) {
            self.broken = Some(FALSE_LOSS);
        }
        let this = &mut self.clients[client];
        let Some(grant) = &mut this.grant else { return };
        // Mutual exclusion is promised again, because the loss is known.
        grant.deleted = None;
        if protocol.has(Planted::LostIdleTaken) && grant.idle.is_some() {
            return;
        }
        let next = this.thread_in(Thread::Queued);
        if let Some(next) = next.filter(|_| protocol.has(Planted::LostHandedOver)) {
            this.lose_hold();
            this.threads[next] = Thread::Handed;
        } else {
            this.end_grant();
        }
    }
}
