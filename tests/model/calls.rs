//! The calls to Redis that the thread with the ticket makes, and what becomes of their copies.

use crate::client::{Call, Grant, Thread};
use crate::promises::{ONE, RELEASED};
use crate::protocol::{Planted, Protocol};
use crate::redis::{Command, OwnerIds, Reply, Script};
use crate::state::{Late, State};

impl State {
    pub fn call(&mut self, client: usize, command: Command) {
        self.clients[client].call = Some(Call {
            command,
            age: 0,
            reply: None,
        });
    }

    /// Sends the first copy of an acquire. It reserves a second token if another thread waits, or
    /// may take the grant while it is idle.
    pub fn acquire(&mut self, client: usize, protocol: &Protocol) {
        let shared = protocol.lingers || self.clients[client].has(Thread::Queued);
        let to = self.fresh_id(client, protocol);
        let command = Command {
            to,
            tokens: u8::from(protocol.fenced) * (1 + u8::from(shared)),
            ..Command::new(Script::Acquire, client, OwnerIds::of(to))
        };
        self.call(client, command);
    }

    /// Redis runs the command. A reply that grants no lease is received at once, because its time
    /// makes no difference.
    pub fn run_call(&mut self, client: usize, protocol: &Protocol) {
        let command = self.current_call(client).command;
        let reply = self.run(&command, protocol);
        let leases = self.redis.leases.iter();
        let copies = leases.filter(|lease| lease.is_of(client, command.ids));
        let mut late = self.late.iter().filter(|late| late.copy.is_some());
        if copies.count() > 1 && !late.any(|late| late.is_of(client)) {
            self.broken = Some(ONE);
        }
        if let Some(call) = &mut self.clients[client].call {
            call.reply = Some(reply);
        }
        if command.script == Script::Release || reply == Reply::HeldByOther {
            self.receive(client, protocol);
        }
    }

    fn current_call(&self, client: usize) -> Call {
        self.clients[client].call.expect("the thread is in a call")
    }

    /// The call stops waiting for the reply to its present copy.
    fn no_reply(&mut self, client: usize) -> Command {
        self.unanswered -= 1;
        let Call { command, reply, .. } = self.current_call(client);
        let copy = Some(command).filter(|_| reply.is_none());
        let open = command.script == Script::Acquire;
        self.late.push(Late::new(client, copy, open));
        command
    }

    /// Sends a further copy. That of an acquire has an owner id of its own, and the older ones.
    pub fn retry(&mut self, client: usize, protocol: &Protocol) {
        let mut command = self.no_reply(client);
        if command.script == Script::Acquire && !protocol.has(Planted::CopiesShareId) {
            command.to = self.fresh_id(client, protocol);
            command.ids = command.ids.with(OwnerIds::of(command.to));
        }
        self.call(client, command);
    }

    pub fn give_up(&mut self, client: usize, protocol: &Protocol) {
        let command = self.no_reply(client);
        self.release_in_background(client, command.ids);
        if command.script == Script::Acquire {
            self.take_back(client, command.ids, protocol);
        }
        self.end_call(client, Thread::Out);
    }

    pub fn receive(&mut self, client: usize, protocol: &Protocol) {
        let call = self.current_call(client);
        let command = call.command;
        match (command.script, call.reply) {
            (Script::Acquire, Some(Reply::Done(first))) => {
                let granted = OwnerIds::of(command.to);
                let older = if protocol.has(Planted::GrantTakenBack) {
                    command.ids
                } else {
                    command.ids.without(granted)
                };
                self.take_back(client, older, protocol);
                let from_reply = protocol.has(Planted::LeaseFromReply);
                let age = if from_reply { 0 } else { call.age };
                if age == protocol.lease {
                    // The reply took longer than the lease.
                    self.release_in_background(client, command.ids);
                    return self.end_call(client, Thread::Front);
                }
                self.clients[client].grant = Some(Grant {
                    id: command.to,
                    left: protocol.lease - age,
                    age: age.min(protocol.slice()),
                    next_token: first,
                    tokens: command.tokens,
                    levels: 1,
                    idle: None,
                    // Another program may have deleted the key before the reply came.
                    deleted: Some(call.age).filter(|_| {
                        self.deletions < protocol.deletions && !self.redis.has(client, granted)
                    }),
                });
                let thread = self.clients[client].thread_in(Thread::Front);
                self.hold(client, thread.expect("it made the call"), protocol);
                self.end_call(client, Thread::Holding);
            }
            (Script::Acquire, _) => {
                self.release_in_background(client, command.ids);
                self.take_back(client, command.ids, protocol);
                self.end_call(client, Thread::Front);
            }
            (_, reply) => {
                let remains = self.redis.has(client, command.ids);
                if remains && matches!(reply, Some(Reply::Done(_))) {
                    self.broken = Some(RELEASED);
                }
                self.end_call(client, Thread::Out);
            }
        }
    }

    /// The call ends, and its thread is in this state.
    fn end_call(&mut self, client: usize, thread: Thread) {
        let this = &mut self.clients[client];
        this.call = None;
        if let Some(front) = this.thread_in(Thread::Front) {
            this.threads[front] = thread;
        }
        this.pass_ticket();
        self.close_connections(client);
    }

    /// Nothing more is sent on the late connections of the client.
    pub fn close_connections(&mut self, client: usize) {
        for late in self.late.iter_mut().filter(|late| late.is_of(client)) {
            late.open = false;
        }
    }

    /// Sends a release behind each unanswered copy of the call.
    fn take_back(&mut self, client: usize, ids: OwnerIds, protocol: &Protocol) {
        if !protocol.has(Planted::NotTakenBack) {
            let open = self.late.iter_mut().filter(|late| late.open);
            for late in open.filter(|late| late.is_of(client)) {
                late.behind = ids;
            }
        }
    }
}
