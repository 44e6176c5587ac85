//! What a client sends.

use crate::protocol::{Planted, Protocol};
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

    /// The client's hold is to have this count; if it has several names, under a fresh one.
    pub fn recount(
        &mut self,
        client: usize,
        count: u8,
        lease: bool,
        protocol: &Protocol,
    ) -> Command {
        let hold = self.clients[client].hold.as_mut();
        let hold = hold.expect("only a hold is recounted");
        hold.settling = None;
        let hold = *hold;
        let command = Command {
            count,
            lease,
            ..self.about(client, Script::Recount, hold.names)
        };
        if hold.names.are_uncertain() && !protocol.has(Planted::NoMoveAfterGiveUp) {
            self.move_to_fresh(command, protocol)
        } else {
            command
        }
    }

    /// The count of a hold in doubt, written by the watchdog. All its attempts go to one name.
    pub fn settling(&mut self, client: usize, protocol: &Protocol) -> Command {
        let hold = self.clients[client].hold.expect("only a hold is settled");
        let command = Command {
            count: hold.levels,
            ..self.about(client, Script::Move, hold.names)
        };
        match hold.settling {
            Some(to) => Command { to, ..command },
            None => {
                let command = self.move_to_fresh(command, protocol);
                if let Some(hold) = &mut self.clients[client].hold {
                    hold.settling = Some(command.to);
                }
                command
            }
        }
    }

    /// The same change of the count, but whatever was sent under older names cannot spoil it. From
    /// now on the hold may have the fresh name.
    fn move_to_fresh(&mut self, command: Command, protocol: &Protocol) -> Command {
        let client = command.client as usize;
        let to = self.fresh_name(client);
        if let Some(hold) = &mut self.clients[client].hold
            && !protocol.has(Planted::NameToldByAnswer)
        {
            hold.names = hold.names.with(Names::of(to));
        }
        Command {
            script: Script::Move,
            names: command.names.with(Names::of(to)),
            to,
            ..command
        }
    }

    /// What is sent when `command` got no answer. All retries of a change of the count share a name,
    /// and each of an acquire has one of its own.
    pub fn again(&mut self, command: Command, protocol: &Protocol) -> Command {
        if protocol.has(Planted::RetriesRepeatName) {
            return command;
        }
        match command.script {
            Script::Acquire
                if command.names.are_uncertain() && protocol.has(Planted::RetriesShareName) =>
            {
                command
            }
            Script::Acquire => {
                let to = self.fresh_name(command.client as usize);
                let names = command.names.with(Names::of(to));
                Command {
                    names,
                    to,
                    ..command
                }
            }
            Script::Recount => self.move_to_fresh(command, protocol),
            _ => command,
        }
    }
}
