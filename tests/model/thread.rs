//! The calls of a client's thread, as in `lock/acquire.rs`, `lock/release.rs`, `lock/standing.rs`.

use crate::client::{Call, Hold, Op, Round};
use crate::protocol::{Planted, Protocol};
use crate::redis::{Command, LEASE, Names, Reply, Script};
use crate::state::{Late, State};

impl State {
    pub fn unlock(&mut self, client: usize, protocol: &Protocol) {
        let hold = self.clients[client].hold.as_mut().expect("it was locked");
        let (names, stands) = (hold.names, hold.stands());
        let inner = stands && hold.levels == 2;
        hold.levels = 1;
        self.unconfirmed(client, protocol);
        if inner {
            let command = self.recount(client, 1, false, protocol);
            return self.call(client, Op::InnerUnlock, command);
        }
        let op = if stands { Op::Unlock } else { Op::ClearAway };
        // First of all nothing renews it any more.
        self.clients[client].end_hold();
        if protocol.has(Planted::RenewedAfterRelease) {
            self.clients[client].unforgotten = names;
        }
        let command = self.about(client, Script::Release, names);
        self.call(client, op, command);
    }

    /// A reply that grants no lease is heard at once or not at all: when it comes makes no difference.
    pub fn run_call(&mut self, client: usize, protocol: &Protocol) {
        let command = self.calling(client).round.command;
        let reply = self.run(&command, protocol);
        let call = self.clients[client].call.as_mut().expect("it is calling");
        call.round.reply = Some(reply);
        if !command.lease || reply == Reply::Held {
            self.answer(client, protocol);
        }
    }

    fn calling(&self, client: usize) -> Call {
        self.clients[client].call.expect("it is calling")
    }

    /// The reply was not waited for any longer.
    fn in_vain(&mut self, client: usize, protocol: &Protocol) -> Call {
        self.unanswered -= 1;
        self.retire(client, protocol);
        let call = self.calling(client);
        self.late.push(Late::of(&call.round, true));
        call
    }

    pub fn ask_again(&mut self, client: usize, protocol: &Protocol) {
        let call = self.in_vain(client, protocol);
        let command = self.again(call.round.command, protocol);
        self.clients[client].call = Some(Call {
            round: Round::new(command),
            ambiguous: true,
            ..call
        });
    }

    pub fn give_up(&mut self, client: usize, protocol: &Protocol) {
        let call = self.in_vain(client, protocol);
        let command = call.round.command;
        match call.op {
            Op::Acquire => self.take_back(client, command.names),
            Op::Nest | Op::InnerUnlock => self.leave_in_doubt(client, protocol),
            Op::Unlock => self.withdraw(client, command.names),
            Op::ClearAway => {}
        }
        self.end_call(client);
    }

    pub fn answer(&mut self, client: usize, protocol: &Protocol) {
        let call = self.calling(client);
        let Round {
            command,
            age,
            reply,
            ..
        } = call.round;
        let reply = reply.expect("it is answered");
        let age = if protocol.has(Planted::LeaseFromReply) {
            0
        } else {
            age
        };
        let left = LEASE - age;
        match (call.op, reply) {
            (Op::Acquire, Reply::Done) if left > 0 => {
                self.release_older(client, &command);
                // If somebody deleted it before the reply came.
                let deleted = self.deletions < protocol.deletions;
                let deleted =
                    Some(age).filter(|_| deleted && !self.key_is_of(client, Names::of(command.to)));
                self.clients[client].hold = Some(Hold {
                    names: Names::of(command.to),
                    levels: 1,
                    left,
                    settling: None,
                    gave_up: false,
                    deleted,
                });
            }
            // The answer took longer than the lease.
            (Op::Acquire, Reply::Done) => {
                self.release_older(client, &command);
                self.withdraw(client, Names::of(command.to));
                self.retire(client, protocol);
            }
            (Op::Acquire, _) if call.ambiguous => self.take_back(client, command.names),
            (Op::Nest | Op::InnerUnlock, Reply::Done) => {
                if let Some(hold) = &mut self.clients[client].hold {
                    if command.script == Script::Move {
                        hold.names = Names::of(command.to);
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

    pub fn retire(&mut self, client: usize, protocol: &Protocol) {
        if !protocol.has(Planted::NoFreshOwner) {
            self.clients[client].owner = None;
        }
    }

    fn late_of(&mut self, client: usize) -> impl Iterator<Item = &mut Late> {
        self.late
            .iter_mut()
            .filter(move |late| late.client as usize == client)
    }

    /// Sends a command behind each copy of the call that got no answer.
    fn follow_up(&mut self, client: usize, command: Command) {
        for late in self.late_of(client).filter(|late| late.kept) {
            late.behind = Some(command);
        }
    }

    /// An acquire that ended without a hold may have left one in Redis.
    fn take_back(&mut self, client: usize, names: Names) {
        let release = self.about(client, Script::Release, names);
        self.follow_up(client, release);
        self.withdraw(client, names);
    }

    /// The copies of an acquire that another one's answer has overtaken: what they take, nobody holds.
    fn release_older(&mut self, client: usize, answered: &Command) {
        let older = answered.names.without(Names::of(answered.to));
        if !older.is_empty() {
            let release = self.about(client, Script::Release, older);
            self.follow_up(client, release);
        }
    }

    /// A change of the count that ended without an answer: the hold may have several names.
    fn leave_in_doubt(&mut self, client: usize, protocol: &Protocol) {
        let command = self.calling(client).round.command;
        let fresh = self.fresh_name(client);
        let Some(hold) = &mut self.clients[client].hold else {
            return;
        };
        if command.script == Script::Move {
            hold.names = hold.names.with(Names::of(command.to));
        } else if !protocol.has(Planted::RetriesRepeatName) {
            hold.names = hold.names.with(Names::of(fresh));
        }
        hold.gave_up = hold.stands();
    }

    fn withdraw(&mut self, client: usize, names: Names) {
        let withdrawals = &mut self.clients[client].withdrawals;
        *withdrawals = withdrawals.with(names);
    }
}
