//! The watchdog of a client, as in `watchdog/thread.rs`, `watchdog/cleanup.rs` and
//! `local/owner_ids.rs`.

use crate::client::{Hold, Request};
use crate::protocol::{Planted, Protocol};
use crate::redis::{LEASE, OwnerIds, Reply, Script};
use crate::state::{Late, State};

impl State {
    pub fn renew(&mut self, client: usize) {
        let this = &mut self.clients[client];
        let ids = match this.hold.filter(Hold::stands) {
            Some(hold) => hold.ids,
            None => std::mem::take(&mut this.still_renewed),
        };
        let command = self.command_for(client, Script::Renew, ids);
        self.clients[client].watchdog = Some(Request::new(command));
    }

    /// Writes the count that an abandoned call left unknown.
    pub fn write_unknown_count(&mut self, client: usize, protocol: &Protocol) {
        let command = self.recount_to(client, protocol);
        self.clients[client].watchdog = Some(Request::new(command));
    }

    fn watchdog_request(&self, client: usize) -> Request {
        self.clients[client]
            .watchdog
            .expect("the watchdog has sent a request")
    }

    /// The reply to a successful renewal is received at once or not at all: its time makes no
    /// difference, because the lease is measured from before the request was sent.
    pub fn run_watchdog(&mut self, client: usize, protocol: &Protocol) {
        let mut request = self.watchdog_request(client);
        let reply = self.run(&request.command, protocol);
        request.reply = Some(reply);
        self.clients[client].watchdog = Some(request);
        let received_at_once = match request.command.script {
            Script::Renew => reply == Reply::Done,
            Script::Move => reply != Reply::Done,
            _ => true,
        };
        if received_at_once {
            self.watchdog_receive(client, protocol);
        }
    }

    /// The watchdog's request gets no reply. The hold stays as it is.
    pub fn watchdog_time_out(&mut self, client: usize, protocol: &Protocol) {
        self.unanswered -= 1;
        self.retire_if_renewing(client, protocol);
        let request = self.watchdog_request(client);
        self.late.push(Late::of(&request, false));
        self.clients[client].watchdog = None;
    }

    /// A late renewal must not find a later hold under its owner id. The library takes the fresh id
    /// when it gives up the hold; earlier it is not needed.
    pub fn retire_if_renewing(&mut self, client: usize, protocol: &Protocol) {
        if self.clients[client].is_being_renewed() {
            self.retire_owner(client, protocol);
        }
    }

    pub fn watchdog_receive(&mut self, client: usize, protocol: &Protocol) {
        let request = self.watchdog_request(client);
        let command = request.command;
        if request.reply != Some(Reply::Done) {
            self.retire_if_renewing(client, protocol);
        }
        let this = &mut self.clients[client];
        this.watchdog = None;
        if command.script == Script::Release {
            this.orphans = this.orphans.without(command.ids);
            return;
        }
        // Replies about a hold that has ended are ignored.
        let Some(hold) = this.hold.as_mut().filter(|h| h.stands() && !request.stale) else {
            if protocol.has(Planted::RenewedAfterRelease) && request.reply == Some(Reply::Done) {
                this.still_renewed = command.ids;
            }
            return;
        };
        if command.script == Script::Move {
            // If the thread has begun another change meanwhile, that change decides the count.
            if request.reply == Some(Reply::Done) && hold.ids == command.ids {
                hold.ids = OwnerIds::of(command.to);
                (hold.recount_to, hold.gave_up) = (None, false);
            }
        } else if request.reply == Some(Reply::Done) {
            let age = if protocol.has(Planted::LeaseFromReply) {
                0
            } else {
                request.age
            };
            hold.left = hold.left.max(LEASE - age);
        } else if hold.ids.without(command.ids).is_empty() || protocol.has(Planted::OldIdTrusted) {
            self.lose(client, protocol);
        }
    }
}
