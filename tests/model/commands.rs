//! What a client sends.

use crate::protocol::{Protocol, Rename};
use crate::redis::{Command, Names, Script};
use crate::state::State;

impl State {
    /// The owner under which the client takes its next lock.
    pub fn acquire(&mut self, client: usize) -> Command {
        let number = match self.clients[client].owner {
            Some(number) => number,
            None => self.fresh_name(client),
        };
        self.clients[client].owner = Some(number);
        Command {
            script: Script::Acquire,
            client: client as u8,
            names: Names::of(number),
            to: number,
            count: 1,
            lease: true,
        }
    }

    /// A command about a hold that the client has under one of these names.
    pub fn about(&self, client: usize, script: Script, names: Names) -> Command {
        Command {
            script,
            client: client as u8,
            names,
            to: names.0.trailing_zeros() as u8,
            count: 0,
            lease: script == Script::Renew,
        }
    }

    /// The client's hold is to have this count; where its name is not safe any more, under a fresh one.
    pub fn recount(&mut self, client: usize, count: u8, lease: bool) -> Command {
        let hold = self.clients[client].hold.expect("only a hold is recounted");
        let command = Command {
            count,
            lease,
            ..self.about(client, Script::Recount, hold.names)
        };
        if hold.stained {
            self.under_a_fresh_name(command)
        } else {
            command
        }
    }

    /// The same, but whatever was sent under older names cannot spoil it.
    fn under_a_fresh_name(&mut self, command: Command) -> Command {
        let client = command.client as usize;
        let to = self.fresh_name(client);
        let acquire = command.script == Script::Acquire;
        if let Some(hold) = &mut self.clients[client].hold {
            hold.names = hold.names.with(Names::of(to));
        }
        Command {
            script: if acquire {
                Script::Acquire
            } else {
                Script::Move
            },
            names: command.names.with(Names::of(to)),
            to,
            ..command
        }
    }

    /// What is sent when `command` got no answer.
    pub fn again(&mut self, command: Command, protocol: &Protocol) -> Command {
        let afresh = match command.script {
            Script::Acquire | Script::Recount => protocol.renames_each_retry(),
            Script::Move => protocol.rename == Rename::EachRetry,
            _ => false,
        };
        if afresh {
            self.under_a_fresh_name(command)
        } else {
            command
        }
    }

    /// What the watchdog sends for a hold that stands.
    pub fn renewal(&mut self, client: usize, protocol: &Protocol) -> Command {
        let this = &self.clients[client];
        let hold = this.hold.expect("only a hold is renewed");
        if hold.stained && this.call.is_none() && protocol.renames_at_renewal() {
            self.recount(client, hold.levels, true)
        } else {
            self.about(client, Script::Renew, hold.names)
        }
    }
}
