//! The calls of a client's thread, as in `lock/acquire.rs`, `lock/release.rs` and
//! `lock/hold_requests.rs`.

use crate::client::{Call, Hold, Op, Request};
use crate::protocol::{Planted, Protocol};
use crate::redis::{Command, LEASE, OwnerIds, Reply, Script};
use crate::state::{Late, State};

impl State {
    pub fn unlock(&mut self, client: usize, protocol: &Protocol) {
        let hold = self.clients[client]
            .hold
            .as_mut()
            .expect("the client has a hold");
        let (ids, stands) = (hold.ids, hold.stands());
        let inner = stands && hold.levels == 2;
        hold.levels = 1;
        self.retire_if_renewing(client, protocol);
        if inner {
            let command = self.recount(client, 1, false, protocol);
            return self.call(client, Op::InnerUnlock, command);
        }
        let op = if stands {
            Op::Unlock
        } else {
            Op::ReleaseExpired
        };
        // The watchdog forgets the hold before the release is sent.
        self.clients[client].end_hold();
        if protocol.has(Planted::RenewedAfterRelease) {
            self.clients[client].still_renewed = ids;
        }
        let command = self.command_for(client, Script::Release, ids);
        self.call(client, op, command);
    }

    /// A reply that grants no lease is received at once or not at all, because its time makes no
    /// difference.
    pub fn run_call(&mut self, client: usize, protocol: &Protocol) {
        let command = self.current_call(client).request.command;
        let reply = self.run(&command, protocol);
        let call = self.clients[client]
            .call
            .as_mut()
            .expect("the thread is in a call");
        call.request.reply = Some(reply);
        if !command.lease || reply == Reply::HeldByOther {
            self.receive(client, protocol);
        }
    }

    fn current_call(&self, client: usize) -> Call {
        self.clients[client].call.expect("the thread is in a call")
    }

    /// The call stops waiting for the reply.
    fn no_reply(&mut self, client: usize, protocol: &Protocol) -> Call {
        self.unanswered -= 1;
        self.retire_owner(client, protocol);
        let call = self.current_call(client);
        self.late.push(Late::of(&call.request, true));
        call
    }

    pub fn retry(&mut self, client: usize, protocol: &Protocol) {
        let call = self.no_reply(client, protocol);
        let command = self.retry_of(call.request.command, protocol);
        self.clients[client].call = Some(Call {
            request: Request::new(command),
            ambiguous: true,
            ..call
        });
    }

    pub fn give_up(&mut self, client: usize, protocol: &Protocol) {
        let call = self.no_reply(client, protocol);
        let command = call.request.command;
        match call.op {
            Op::Acquire => self.compensate(client, command.ids),
            Op::Nest | Op::InnerUnlock => self.leave_count_unknown(client, protocol),
            Op::Unlock => self.release_orphan(client, command.ids),
            Op::ReleaseExpired => {}
        }
        self.end_call(client);
    }

    pub fn receive(&mut self, client: usize, protocol: &Protocol) {
        let call = self.current_call(client);
        let Request {
            command,
            age,
            reply,
            ..
        } = call.request;
        let reply = reply.expect("the reply has arrived");
        let age = if protocol.has(Planted::LeaseFromReply) {
            0
        } else {
            age
        };
        let left = LEASE - age;
        match (call.op, reply) {
            (Op::Acquire, Reply::Done) if left > 0 => {
                self.release_older(client, &command);
                // Another program may have deleted the key before the reply came.
                let deleted = self.deletions < protocol.deletions;
                let deleted = Some(age)
                    .filter(|_| deleted && !self.key_is_of(client, OwnerIds::of(command.to)));
                self.clients[client].hold = Some(Hold {
                    ids: OwnerIds::of(command.to),
                    levels: 1,
                    left,
                    recount_to: None,
                    gave_up: false,
                    deleted,
                });
            }
            // The reply took longer than the lease.
            (Op::Acquire, Reply::Done) => {
                self.release_older(client, &command);
                self.release_orphan(client, OwnerIds::of(command.to));
                self.retire_owner(client, protocol);
            }
            (Op::Acquire, _) if call.ambiguous => self.compensate(client, command.ids),
            (Op::Nest | Op::InnerUnlock, Reply::Done) => {
                if let Some(hold) = &mut self.clients[client].hold {
                    if command.script == Script::Move {
                        hold.ids = OwnerIds::of(command.to);
                    }
                    if hold.stands() {
                        if command.lease {
                            hold.left = hold.left.max(left);
                        }
                        hold.levels = command.count;
                        hold.gave_up = false;
                    }
                }
            }
            (Op::Nest | Op::InnerUnlock, _) => self.lose(client, protocol),
            _ => {}
        }
        self.end_call(client);
    }

    fn end_call(&mut self, client: usize) {
        self.clients[client].call = None;
        for late in self.late_of(client) {
            late.kept = false;
        }
    }

    pub fn retire_owner(&mut self, client: usize, protocol: &Protocol) {
        if !protocol.has(Planted::NoFreshOwner) {
            self.clients[client].owner = None;
        }
    }

    fn late_of(&mut self, client: usize) -> impl Iterator<Item = &mut Late> {
        self.late
            .iter_mut()
            .filter(move |late| late.client as usize == client)
    }

    /// Sends a command behind each unanswered copy of the call.
    fn send_behind(&mut self, client: usize, command: Command) {
        for late in self.late_of(client).filter(|late| late.kept) {
            late.behind = Some(command);
        }
    }

    /// Releases what an acquire without a clear reply may have left in Redis.
    fn compensate(&mut self, client: usize, ids: OwnerIds) {
        let release = self.command_for(client, Script::Release, ids);
        self.send_behind(client, release);
        self.release_orphan(client, ids);
    }

    /// Releases what older copies of an answered acquire may take.
    fn release_older(&mut self, client: usize, answered: &Command) {
        let older = answered.ids.without(OwnerIds::of(answered.to));
        if !older.is_empty() {
            let release = self.command_for(client, Script::Release, older);
            self.send_behind(client, release);
        }
    }

    /// A recount ended without a reply: the hold may have several owner ids.
    fn leave_count_unknown(&mut self, client: usize, protocol: &Protocol) {
        let command = self.current_call(client).request.command;
        let fresh = self.fresh_id(client);
        let Some(hold) = &mut self.clients[client].hold else {
            return;
        };
        if command.script == Script::Move {
            hold.ids = hold.ids.with(OwnerIds::of(command.to));
        } else if !protocol.has(Planted::RetriesRepeatId) {
            hold.ids = hold.ids.with(OwnerIds::of(fresh));
        }
        hold.gave_up = hold.stands();
    }

    fn release_orphan(&mut self, client: usize, ids: OwnerIds) {
        let orphans = &mut self.clients[client].orphans;
        *orphans = orphans.with(ids);
    }
}
