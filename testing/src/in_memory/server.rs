//! Executes the commands of all connections, one after the other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::commands::{self, Outcome};
use super::data::{Data, SessionId};
use super::keyspace::Keyspace;
use super::reply::Reply;
use super::scripts::Scripts;
use super::session::Session;
use crate::known_scripts::KnownScripts;

const INFO: &str = "# Server\r\nserver_name:leasehold::testing\r\nredis_version:7.2.0\r\n\
                    redis_mode:standalone\r\n\
                    # Replication\r\nrole:master\r\nconnected_slaves:0\r\n";

/// A longer delay is cut: the clock has no moment for its end.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// The state of the server. Only its thread uses it.
pub(super) struct Server {
    data: Rc<RefCell<Data>>,
    scripts: Scripts,
    pub(super) sessions: BTreeMap<SessionId, Session>,
    pub(super) next_session: SessionId,
    /// Connections are closed at once if it is not.
    is_available: bool,
    /// The time between a command and its reply.
    delay: Duration,
}

impl Server {
    pub(super) fn new(known: KnownScripts) -> mlua::Result<Self> {
        let data = Rc::new(RefCell::new(Data::new()));
        Ok(Self {
            scripts: Scripts::new(Rc::clone(&data), known)?,
            data,
            sessions: BTreeMap::new(),
            next_session: 1,
            is_available: true,
            delay: Duration::ZERO,
        })
    }

    pub(super) fn is_available(&self) -> bool {
        self.is_available
    }

    /// Closes all connections if the server is not available from now on.
    pub(super) fn set_available(&mut self, is_available: bool) {
        self.is_available = is_available;
        if !is_available {
            let sessions: Vec<_> = self.sessions.keys().copied().collect();
            sessions.into_iter().for_each(|id| self.close(id));
        }
    }

    pub(super) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay.min(LONGEST_DELAY);
    }

    /// Changes or reads keys, by the current time.
    pub(super) fn with_keys<T>(&mut self, change: impl FnOnce(&mut Keyspace) -> T) -> T {
        let keys = &mut self.data.borrow_mut().keys;
        keys.read_clock();
        change(keys)
    }

    pub(super) fn close(&mut self, id: SessionId) {
        let channels = &mut self.data.borrow_mut().channels;
        for channel in channels.of(id) {
            channels.unsubscribe(id, &channel);
        }
        self.sessions.remove(&id);
    }

    /// Executes the commands that have arrived on a connection.
    pub(super) fn execute_received(&mut self, id: SessionId) {
        while let Some(session) = self.sessions.get_mut(&id) {
            match session.next_command() {
                Ok(None) => return,
                Ok(Some(command)) => {
                    let replies = self.execute(id, command);
                    let at = Instant::now() + self.delay;
                    if let Some(session) = self.sessions.get_mut(&id) {
                        replies.iter().for_each(|reply| session.reply(reply, at));
                    }
                    let messages = self.data.borrow_mut().channels.take_messages();
                    for (listener, message) in messages {
                        if let Some(session) = self.sessions.get_mut(&listener) {
                            session.reply(&message, at);
                        }
                    }
                }
                Err(_) => self.close(id),
            }
        }
    }

    /// Most commands have one reply.
    fn execute(&mut self, id: SessionId, mut command: Vec<Vec<u8>>) -> Vec<Reply> {
        if command.is_empty() {
            return Vec::new();
        }
        let name = String::from_utf8_lossy(&command.remove(0)).to_ascii_lowercase();
        self.data.borrow_mut().keys.read_clock();
        match name.as_str() {
            "subscribe" => return self.subscribe(id, &command),
            "unsubscribe" => return self.unsubscribe(id, &command),
            _ => {}
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return Vec::new();
        };
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
                let lines = self.sessions.values().map(|session| {
                    let address = session.stream.peer_addr();
                    let address = address.map_or_else(|_| "?".into(), |one| one.to_string());
                    let name = String::from_utf8_lossy(&session.name);
                    format!("id={} addr={address} name={name} db=0\n", session.id)
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
