//! The calls of a client's thread, as in `lock/acquire.rs`, `lock/release.rs`, `lock/standing.rs`.

use crate::client::{Call, Hold, Op, Round};
use crate::protocol::{Planted, Protocol, Rename};
use crate::redis::{Command, LEASE, Names, Reply, Script};
use crate::state::{Late, State};

impl State {
    pub fn unlock(&mut self, client: usize, protocol: &Protocol) {
        let hold = self.clients[client].hold.as_mut().expect("it was locked");
        let names = hold.names;
        if hold.stands() && hold.levels == 2 {
            hold.levels = 1;
            let command = self.recount(client, 1, false);
            return self.call(client, Op::InnerUnlock, command);
        }
        let op = if hold.stands() {
            Op::Unlock
        } else {
            Op::ClearAway
        };
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
            ambiguous: call.op == Op::Acquire || protocol.stains(),
            ..call
        });
    }

    pub fn give_up(&mut self, client: usize, protocol: &Protocol) {
        let call = self.in_vain(client, protocol);
        let command = call.round.command;
        match call.op {
            Op::Acquire => self.take_back(client, command.names),
            Op::Nest | Op::InnerUnlock | Op::Settle => self.set_right(client, protocol),
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
                // If somebody deleted it before the reply came.
                let deleted = self.deletions < protocol.deletions;
                let deleted =
                    Some(age).filter(|_| deleted && !self.key_is_of(client, Names::of(command.to)));
                self.clients[client].hold = Some(Hold {
                    names: Names::of(command.to),
                    levels: 1,
                    left,
                    stained: call.ambiguous && protocol.stains(),
                    deleted,
                });
            }
            // The answer took longer than the lease.
            (Op::Acquire, Reply::Done) => {
                self.withdraw(client, command.names);
                self.retire(client, protocol);
            }
            (Op::Acquire, _) if call.ambiguous => self.take_back(client, command.names),
            (Op::Nest | Op::InnerUnlock | Op::Settle, Reply::Done) => {
                if let Some(hold) = self.clients[client].hold.as_mut().filter(|h| h.stands()) {
                    if command.lease {
                        hold.left = hold.left.max(left);
                    }
                    hold.levels = command.count;
                    hold.names = if command.script == Script::Move {
                        Names::of(command.to)
                    } else {
                        command.names
                    };
                    hold.stained = call.ambiguous && protocol.stains();
                }
            }
            (Op::Nest | Op::InnerUnlock | Op::Settle, _) => self.lose(client),
            _ => {}
        }
        self.end_call(client);
        let stained = self.clients[client].hold.is_some_and(|hold| hold.stained);
        if protocol.rename == Rename::AtOnce && stained {
            let levels = self.clients[client].hold.map_or(0, |hold| hold.levels);
            let command = self.recount(client, levels, false);
            self.call(client, Op::Settle, command);
        }
    }

    fn end_call(&mut self, client: usize) {
        self.clients[client].call = None;
        for late in self.late_of(client) {
            late.kept = false;
        }
    }

    fn retire(&mut self, client: usize, protocol: &Protocol) {
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

    /// A change of the count that ended without an answer.
    fn set_right(&mut self, client: usize, protocol: &Protocol) {
        let Some(hold) = self.clients[client].hold.as_mut().filter(|h| h.stands()) else {
            return;
        };
        if protocol.renames() {
            hold.stained = true;
        } else {
            let levels = hold.levels;
            let command = self.recount(client, levels, false);
            self.follow_up(client, command);
        }
    }

    fn withdraw(&mut self, client: usize, names: Names) {
        let withdrawals = &mut self.clients[client].withdrawals;
        *withdrawals = withdrawals.with(names);
    }
}
