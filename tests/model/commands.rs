//! The commands that a client sends.

use crate::protocol::{Planted, Protocol};
use crate::redis::{Command, OwnerIds, Script};
use crate::state::State;

impl State {
    /// Acquires the lock under the client's next owner id.
    pub fn acquire(&mut self, client: usize) -> Command {
        let number = match self.clients[client].owner {
            Some(number) => number,
            None => self.fresh_id(client),
        };
        self.clients[client].owner = Some(number);
        Command {
            script: Script::Acquire,
            client: client as u8,
            ids: OwnerIds::of(number),
            to: number,
            count: 1,
            lease: true,
        }
    }

    /// A command for a hold that may have any of these owner ids.
    pub fn command_for(&self, client: usize, script: Script, ids: OwnerIds) -> Command {
        Command {
            script,
            client: client as u8,
            ids,
            to: ids.0.trailing_zeros() as u8,
            count: 0,
            lease: script == Script::Renew,
        }
    }

    /// Writes the count of the client's hold. A hold with several owner ids moves to a fresh one.
    pub fn recount(
        &mut self,
        client: usize,
        count: u8,
        lease: bool,
        protocol: &Protocol,
    ) -> Command {
        let hold = self.clients[client].hold.as_mut();
        let hold = hold.expect("only a hold is recounted");
        hold.recount_to = None;
        let hold = *hold;
        let command = Command {
            count,
            lease,
            ..self.command_for(client, Script::Recount, hold.ids)
        };
        if hold.ids.are_several() && !protocol.has(Planted::NoMoveAfterGiveUp) {
            self.move_to_fresh_id(command, protocol)
        } else {
            command
        }
    }

    /// The command by which the watchdog writes an unknown count. All attempts carry the same fresh
    /// owner id.
    pub fn recount_to(&mut self, client: usize, protocol: &Protocol) -> Command {
        let hold = self.clients[client].hold.expect("only a hold has a count");
        let command = Command {
            count: hold.levels,
            ..self.command_for(client, Script::Move, hold.ids)
        };
        match hold.recount_to {
            Some(to) => Command { to, ..command },
            None => {
                let command = self.move_to_fresh_id(command, protocol);
                if let Some(hold) = &mut self.clients[client].hold {
                    hold.recount_to = Some(command.to);
                }
                command
            }
        }
    }

    /// Moves the hold to a fresh owner id, so that late commands under older ids cannot change it.
    fn move_to_fresh_id(&mut self, command: Command, protocol: &Protocol) -> Command {
        let client = command.client as usize;
        let to = self.fresh_id(client);
        if let Some(hold) = &mut self.clients[client].hold
            && !protocol.has(Planted::IdKnownFromReply)
        {
            hold.ids = hold.ids.with(OwnerIds::of(to));
        }
        Command {
            script: Script::Move,
            ids: command.ids.with(OwnerIds::of(to)),
            to,
            ..command
        }
    }

    /// The command to send when `command` got no reply. All retries of a recount share one fresh
    /// owner id; each retry of an acquire has its own.
    pub fn retry_of(&mut self, command: Command, protocol: &Protocol) -> Command {
        if protocol.has(Planted::RetriesRepeatId) {
            return command;
        }
        match command.script {
            Script::Acquire
                if command.ids.are_several() && protocol.has(Planted::RetriesShareId) =>
            {
                command
            }
            Script::Acquire => {
                let to = self.fresh_id(command.client as usize);
                let ids = command.ids.with(OwnerIds::of(to));
                Command { ids, to, ..command }
            }
            Script::Recount => self.move_to_fresh_id(command, protocol),
            _ => command,
        }
    }
}
