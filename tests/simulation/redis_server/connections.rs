//! The connections of a server: what it receives and sends, with the faults of the plans.

use leasehold_simulation_world::network::{self, Service, SocketId};
use leasehold_simulation_world::{random, time};

use super::{Input, Mute, RedisServer, text};
use crate::plan::{Plan, RequestFault};
use crate::server::SessionId;

impl RedisServer {
    /// Executes nothing from now on.
    pub fn pause(&mut self) {
        self.backlog.get_or_insert_default();
    }

    /// Executes what has arrived during the pause.
    pub fn resume(&mut self) {
        for (socket, input) in self.backlog.take().into_iter().flatten() {
            match input {
                Input::Bytes(bytes) => self.receive(socket, &bytes),
                Input::Close => self.close(socket),
            }
        }
    }

    pub fn is_paused(&self) -> bool {
        self.backlog.is_some()
    }

    pub(super) fn send_message(&self, receiver: SessionId, bytes: &[u8]) {
        let Some(&socket) = self.sockets.get(&receiver) else {
            return;
        };
        if self.mute.contains_key(&socket)
            || random::between(1..=100) <= self.plan(socket).lost_messages
        {
            if self.traces {
                self.note(&format!("lost on {socket}: {}", text(bytes)));
            }
            return;
        }
        if self.traces {
            self.note(&format!("to {socket}: {}", text(bytes)));
        }
        network::reply(socket, bytes);
    }

    fn plan(&self, socket: SocketId) -> Plan {
        let process = network::process_of(socket);
        let plan = process.and_then(|process| self.plans.get(&process));
        plan.copied().unwrap_or_default()
    }

    /// Executes the requests of a connection.
    pub fn serve(&mut self, socket: SocketId, session: SessionId) {
        while !self.waiting.contains(&socket) {
            let command = match self.machine.next_command(session) {
                Ok(Some(command)) => command,
                Ok(None) => return,
                Err(_) => {
                    network::hang_up(socket);
                    return self.forget(socket);
                }
            };
            if self.mute.get(&socket) == Some(&Mute::Requests) {
                continue;
            }
            let plan = self.plan(socket);
            let is_request = command
                .first()
                .is_some_and(|name| name.starts_with(b"EVAL"));
            let fault = (is_request && random::one_in(plan.one_of))
                .then(|| plan.fault.unwrap_or_else(RequestFault::any));
            match fault {
                Some(RequestFault::LoseRequest) => {
                    self.mute.insert(socket, Mute::Requests);
                    continue;
                }
                Some(RequestFault::HoldBack) => {
                    self.mute.insert(socket, Mute::Requests);
                    self.held_back.push(command);
                    continue;
                }
                Some(RequestFault::LoseReply) => {
                    self.mute.insert(socket, Mute::Replies);
                }
                Some(RequestFault::ResetBeforeReply) | None => {}
            }
            if command.first().is_some_and(|name| name == b"WAIT") {
                self.wait(socket, session, &command);
                continue;
            }
            let replies = match self.answer(socket, session, &command) {
                Some(reply) => reply,
                None => self.execute(session, command),
            };
            if fault == Some(RequestFault::ResetBeforeReply) {
                // The network has this server borrowed.
                time::at(time::now(), move || network::reset_one(socket));
                self.mute.insert(socket, Mute::Requests);
            }
            self.send_reply(socket, &replies);
        }
    }

    /// The session of a connection.
    pub fn session_of(&self, socket: SocketId) -> Option<SessionId> {
        self.sessions.get(&socket).copied()
    }

    /// Sends a reply, if those of the connection arrive.
    pub fn send_reply(&self, socket: SocketId, reply: &[u8]) {
        if !self.mute.contains_key(&socket) && !reply.is_empty() {
            network::reply(socket, reply);
        }
    }

    fn forget(&mut self, socket: SocketId) {
        self.mute.remove(&socket);
        self.waiting.remove(&socket);
        if let Some(member) = &mut self.member {
            member.forget(socket);
        }
        if let Some(session) = self.sessions.remove(&socket) {
            self.sockets.remove(&session);
            self.written.remove(&session);
            self.machine.close(session);
        }
    }
}

impl Service for RedisServer {
    fn open(&mut self, connection: SocketId) -> bool {
        let session = self.machine.open(format!("10.0.1.1:{connection}"));
        self.sessions.insert(connection, session);
        self.sockets.insert(session, connection);
        if self.sessions.len() > self.most_connections {
            network::reply(connection, b"-ERR max number of clients reached\r\n");
            self.forget(connection);
            time::at(time::now(), move || network::hang_up(connection));
        }
        true
    }

    fn receive(&mut self, connection: SocketId, bytes: &[u8]) {
        if let Some(backlog) = &mut self.backlog {
            backlog.push((connection, Input::Bytes(bytes.to_vec())));
            return;
        }
        if let Some(&session) = self.sessions.get(&connection) {
            self.machine.receive(session, bytes);
            self.serve(connection, session);
        }
    }

    fn close(&mut self, connection: SocketId) {
        match &mut self.backlog {
            Some(backlog) => backlog.push((connection, Input::Close)),
            None => self.forget(connection),
        }
    }
}
