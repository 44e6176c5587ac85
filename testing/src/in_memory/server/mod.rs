//! A Redis without sockets and without a clock. Its caller brings the bytes of the connections and
//! sets the time, and gets the bytes to send. They are the same for the same commands and times.

mod commands;
mod data;
mod keyspace;
mod reply;
mod scripts;
mod session;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;

use crate::frame::ProtocolError;
use crate::known_scripts::KnownScripts;
use commands::Outcome;
use data::Data;
pub(super) use keyspace::{Keyspace, Value};
use reply::Reply;
use scripts::Scripts;
use session::{Command, Session};

const INFO: &str = "# Server\r\nserver_name:leasehold::testing\r\nredis_version:7.2.0\r\n\
                    redis_mode:standalone\r\n\
                    # Replication\r\nrole:master\r\nconnected_slaves:0\r\n";

/// Identifies a connection. Never used again.
pub(super) type SessionId = u64;

/// Executes the commands of all connections, one after the other.
pub(super) struct Server {
    data: Rc<RefCell<Data>>,
    scripts: Scripts,
    sessions: BTreeMap<SessionId, Session>,
    next_session: SessionId,
}

impl Server {
    pub(super) fn new(known: KnownScripts) -> mlua::Result<Self> {
        let data = Rc::new(RefCell::new(Data::default()));
        Ok(Self {
            scripts: Scripts::new(Rc::clone(&data), known)?,
            data,
            sessions: BTreeMap::new(),
            next_session: 1,
        })
    }

    /// Sets the time of what follows, in microseconds since 1970.
    pub(super) fn set_time(&mut self, micros: i64) {
        self.data.borrow_mut().keys.set_time(micros);
    }

    /// Changes, reads, copies or replaces the keys.
    pub(super) fn with_keys<T>(&mut self, change: impl FnOnce(&mut Keyspace) -> T) -> T {
        change(&mut self.data.borrow_mut().keys)
    }

    /// Begins a connection. `CLIENT LIST` shows `peer` as its address.
    pub(super) fn open(&mut self, peer: String) -> SessionId {
        let id = self.next_session;
        self.next_session += 1;
        self.sessions.entry(id).or_default().peer = peer;
        id
    }

    /// Ends a connection. When all are closed, only the keys and the scripts are left.
    pub(super) fn close(&mut self, id: SessionId) {
        let channels = &mut self.data.borrow_mut().channels;
        for channel in channels.of(id) {
            channels.unsubscribe(id, &channel);
        }
        self.sessions.remove(&id);
    }

    /// Takes bytes that have arrived on a connection, for [`next_command`](Self::next_command).
    pub(super) fn receive(&mut self, id: SessionId, bytes: &[u8]) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.received.extend_from_slice(bytes);
        }
    }

    /// The words of the next command that has arrived on a connection, for
    /// [`execute`](Self::execute): none in an empty line. After an error, the caller closes the
    /// connection.
    pub(super) fn next_command(&mut self, id: SessionId) -> Result<Option<Command>, ProtocolError> {
        let session = self.sessions.get_mut(&id);
        session.map_or(Ok(None), Session::next_command)
    }

    /// Executes a command of a connection. Returns what is to be sent, in this order: its replies,
    /// and the messages to subscribers.
    pub(super) fn execute(&mut self, id: SessionId, command: Command) -> Vec<(SessionId, Vec<u8>)> {
        let replies = self.replies(id, command);
        let replies = replies.into_iter().map(|reply| (id, reply));
        let messages = self.data.borrow_mut().channels.take_messages();
        let output = replies.chain(messages).map(|(receiver, reply)| {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            (receiver, bytes)
        });
        output.collect()
    }

    /// What scripts have called since the last time that the server does not know.
    #[allow(dead_code, reason = "simulations ask for it")]
    pub(super) fn take_unknown(&mut self) -> Vec<String> {
        mem::take(&mut self.data.borrow_mut().unknown)
    }

    /// Most commands have one reply.
    fn replies(&mut self, id: SessionId, mut command: Command) -> Vec<Reply> {
        let session = self.sessions.get_mut(&id);
        let Some(session) = session.filter(|_| !command.is_empty()) else {
            return Vec::new();
        };
        let name = String::from_utf8_lossy(&command.remove(0)).to_ascii_lowercase();
        match name.as_str() {
            "subscribe" => return self.subscribe(id, &command),
            "unsubscribe" => return self.unsubscribe(id, &command),
            _ => {}
        }
        if let Some(queued) = &mut session.transaction
            && !["exec", "discard", "multi"].contains(&name.as_str())
        {
            command.insert(0, name.into_bytes());
            queued.push(command);
            return vec![Reply::Status("QUEUED".into())];
        }
        let outcome = self.run(id, &name, &command);
        vec![outcome.unwrap_or_else(Reply::Error)]
    }

    /// Runs a command that has one reply.
    fn run(&mut self, id: SessionId, name: &str, arguments: &[Vec<u8>]) -> Outcome {
        match (name, arguments) {
            ("eval", [source, rest @ ..]) => {
                let hash = self.scripts.load(source)?;
                self.scripts.run(&hash, rest)
            }
            ("evalsha", [hash, rest @ ..]) => {
                let hash = String::from_utf8_lossy(hash).to_ascii_lowercase();
                self.scripts.run(&hash, rest)
            }
            ("script", [what, rest @ ..]) => self.script(what, rest),
            ("multi" | "exec" | "discard", []) => self.transaction(id, name),
            ("ping", _) => Ok(self.ping(id, arguments)),
            ("echo", [text]) => Ok(Reply::text(text.clone())),
            ("auth", [_, ..]) | ("select", [_]) if name == "auth" || arguments[0] == b"0" => {
                Ok(Reply::ok())
            }
            ("select", [_]) => Err("ERR DB index is out of range".into()),
            ("client", [what, rest @ ..]) => self.client(id, what, rest),
            ("config", [what, ..]) if what.eq_ignore_ascii_case(b"get") => {
                Ok(Reply::List(Vec::new()))
            }
            ("info", _) => Ok(Reply::text(INFO)),
            ("role", []) => {
                let parts = [
                    Reply::text("master"),
                    Reply::Int(0),
                    Reply::List(Vec::new()),
                ];
                Ok(Reply::List(parts.into()))
            }
            // It has no replicas.
            ("wait", [_, _]) => Ok(Reply::Int(0)),
            ("eval" | "evalsha" | "script" | "client" | "auth" | "select" | "wait", _) => {
                Err(commands::wrong_number(name))
            }
            _ => self.data.borrow_mut().run(name, arguments),
        }
    }

    fn script(&mut self, what: &[u8], rest: &[Vec<u8>]) -> Outcome {
        match (&*what.to_ascii_lowercase(), rest) {
            (b"load", [source]) => Ok(Reply::text(self.scripts.load(source)?)),
            (b"exists", hashes) => {
                let known = hashes.iter().map(|hash| {
                    let hash = String::from_utf8_lossy(hash).to_ascii_lowercase();
                    Reply::Int(self.scripts.is_known(&hash).into())
                });
                Ok(Reply::List(known.collect()))
            }
            (b"flush", _) => {
                self.scripts.forget_all();
                Ok(Reply::ok())
            }
            _ => Err(commands::wrong_number("script")),
        }
    }

    fn transaction(&mut self, id: SessionId, name: &str) -> Outcome {
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(Reply::Nil);
        };
        let queued = session.transaction.take();
        match (name, queued) {
            ("multi", None) => {
                session.transaction = Some(Vec::new());
                Ok(Reply::ok())
            }
            ("exec", Some(queued)) => {
                let replies = queued.into_iter().map(|mut command| {
                    let name = String::from_utf8_lossy(&command.remove(0)).into_owned();
                    let outcome = self.run(id, &name, &command);
                    outcome.unwrap_or_else(Reply::Error)
                });
                Ok(Reply::List(replies.collect()))
            }
            ("discard", Some(_)) => Ok(Reply::ok()),
            (_, queued) => {
                session.transaction = queued;
                Err(format!("ERR {} is not allowed here", name.to_uppercase()))
            }
        }
    }

    /// A connection that listens gets the form of a message.
    fn ping(&self, id: SessionId, arguments: &[Vec<u8>]) -> Reply {
        let text = arguments.first().cloned();
        if self.sessions.get(&id).is_some_and(|one| one.is_subscribed) {
            return Reply::texts([b"pong".to_vec(), text.unwrap_or_default()]);
        }
        text.map_or_else(|| Reply::Status("PONG".into()), Reply::Text)
    }

    fn client(&mut self, id: SessionId, what: &[u8], rest: &[Vec<u8>]) -> Outcome {
        let session = self.sessions.get_mut(&id);
        match (&*what.to_ascii_lowercase(), rest, session) {
            (b"setname", [name], Some(session)) => {
                session.name.clone_from(name);
                Ok(Reply::ok())
            }
            (b"setinfo", [_, _], _) => Ok(Reply::ok()),
            (b"getname", [], Some(session)) => Ok(Reply::text(session.name.clone())),
            (b"id", [], _) => Ok(Reply::Int(i64::try_from(id).unwrap_or(i64::MAX))),
            (b"list", _, _) => {
                let lines = self.sessions.iter().map(|(id, session)| {
                    let name = String::from_utf8_lossy(&session.name);
                    format!("id={id} addr={} name={name} db=0\n", session.peer)
                });
                Ok(Reply::text(lines.collect::<String>()))
            }
            _ => Err("ERR unknown subcommand of CLIENT, or its arguments are wrong".into()),
        }
    }

    fn subscribe(&mut self, id: SessionId, names: &[Vec<u8>]) -> Vec<Reply> {
        if names.is_empty() {
            return vec![Reply::Error(commands::wrong_number("subscribe"))];
        }
        let replies = names.iter().map(|name| {
            let channels = &mut self.data.borrow_mut().channels;
            channels.subscribe(id, name);
            confirmation("subscribe", name, channels.of(id).len())
        });
        let replies = replies.collect();
        self.set_subscribed(id);
        replies
    }

    /// Without names, from all channels.
    fn unsubscribe(&mut self, id: SessionId, names: &[Vec<u8>]) -> Vec<Reply> {
        let own = self.data.borrow().channels.of(id);
        let names = if names.is_empty() { &own } else { names };
        let replies = names.iter().map(|name| {
            let channels = &mut self.data.borrow_mut().channels;
            channels.unsubscribe(id, name);
            confirmation("unsubscribe", name, channels.of(id).len())
        });
        let replies = replies.collect();
        self.set_subscribed(id);
        replies
    }

    fn set_subscribed(&mut self, id: SessionId) {
        let is_subscribed = !self.data.borrow().channels.of(id).is_empty();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.is_subscribed = is_subscribed;
        }
    }
}

fn confirmation(what: &str, channel: &[u8], count: usize) -> Reply {
    Reply::List(vec![
        Reply::text(what),
        Reply::text(channel),
        Reply::count(count),
    ])
}
