//! The watchdog of a client, as in `watchdog/thread.rs`, `watchdog/errands.rs`, `local/naming.rs`.

use crate::client::{Hold, Round};
use crate::protocol::{Planted, Protocol};
use crate::redis::{LEASE, Names, Reply, Script};
use crate::state::{Late, State};

impl State {
    pub fn renew(&mut self, client: usize) {
        let this = &mut self.clients[client];
        let names = match this.hold.filter(Hold::stands) {
            Some(hold) => hold.names,
            None => std::mem::take(&mut this.unforgotten),
        };
        let command = self.about(client, Script::Renew, names);
        self.clients[client].dog = Some(Round::new(command));
    }

    /// Writes the count that a call which was given up has left in doubt.
    pub fn settle(&mut self, client: usize, protocol: &Protocol) {
        let command = self.settling(client, protocol);
        self.clients[client].dog = Some(Round::new(command));
    }

    fn asking(&self, client: usize) -> Round {
        self.clients[client].dog.expect("the watchdog is asking")
    }

    /// That a renewal is done is heard at once or not at all: the lease counts from before it was sent
    /// in any case.
    pub fn run_dog(&mut self, client: usize, protocol: &Protocol) {
        let mut round = self.asking(client);
        let reply = self.run(&round.command, protocol);
        round.reply = Some(reply);
        self.clients[client].dog = Some(round);
        let is_heard_at_once = match round.command.script {
            Script::Renew => reply == Reply::Done,
            Script::Move => reply != Reply::Done,
            _ => true,
        };
        if is_heard_at_once {
            self.answer_dog(client, protocol);
        }
    }

    /// Says nothing about the hold, which is asked about again.
    pub fn no_answer_dog(&mut self, client: usize, protocol: &Protocol) {
        self.unanswered -= 1;
        self.unconfirmed(client, protocol);
        let round = self.asking(client);
        self.late.push(Late::of(&round, false));
        self.clients[client].dog = None;
    }

    /// A renewal that may come late must find no later hold under the name that it carries. The library
    /// takes the fresh owner when the hold is given up, and needs none before.
    pub fn unconfirmed(&mut self, client: usize, protocol: &Protocol) {
        if self.clients[client].is_being_renewed() {
            self.retire(client, protocol);
        }
    }

    pub fn answer_dog(&mut self, client: usize, protocol: &Protocol) {
        let round = self.asking(client);
        let command = round.command;
        if round.reply != Some(Reply::Done) {
            self.unconfirmed(client, protocol);
        }
        let this = &mut self.clients[client];
        this.dog = None;
        if command.script == Script::Release {
            this.withdrawals = this.withdrawals.without(command.names);
            return;
        }
        // What is heard of a hold that is over is ignored.
        let Some(hold) = this.hold.as_mut().filter(|h| h.stands() && !round.stale) else {
            if protocol.has(Planted::RenewedAfterRelease) && round.reply == Some(Reply::Done) {
                this.unforgotten = command.names;
            }
            return;
        };
        if command.script == Script::Move {
            // Unless the thread has begun another change meanwhile, which settles it.
            if round.reply == Some(Reply::Done) && hold.names == command.names {
                hold.names = Names::of(command.to);
                (hold.settling, hold.gave_up) = (None, false);
            }
        } else if round.reply == Some(Reply::Done) {
            let age = if protocol.has(Planted::LeaseFromReply) {
                0
            } else {
                round.age
            };
            hold.left = hold.left.max(LEASE - age);
        } else if hold.names.without(command.names).is_empty()
            || protocol.has(Planted::OldNameBelieved)
        {
            self.lose(client, protocol);
        }
    }
}
