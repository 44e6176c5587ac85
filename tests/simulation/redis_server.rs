//! A Redis in the simulated world: the in-memory server with its real scripts, as a service of the
//! network, with faults.

mod connections;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};

use leasehold_simulation_world::network::{self, SocketId};
use leasehold_simulation_world::processes::ProcessId;
use leasehold_simulation_world::{random, time};

use crate::clock;
use crate::cluster::Member;
use crate::known_scripts::KnownScripts;
use crate::log::{CONDUCTOR, Event, Log};
use crate::plan::Plan;
use crate::replication::Replication;
use crate::server::{Keyspace, Server, SessionId};
use crate::slots::slot_of;

/// When the world begins, in microseconds since 1970.
const BEGIN: i64 = 1_700_000_000_000_000;

/// Before one of this many commands, the server removes keys in the background.
const EXPIRES: u64 = 4;

/// The reply to a user who may not subscribe.
const NO_PERMISSION: &[u8] = b"-NOPERM No permissions to access a channel\r\n";

/// The reply of a server that is no master.
const READ_ONLY: &[u8] = b"-READONLY You can't write against a read only replica.\r\n";

pub struct RedisServer {
    pub address: SocketAddr,
    /// For what it does later.
    pub own: Weak<RefCell<Self>>,
    machine: Server,
    /// The address of its master, if it is a replica.
    pub master: Option<SocketAddr>,
    pub replication: Replication,
    pub member: Option<Member>,
    /// After how many commands of the server a connection has written last.
    pub written: BTreeMap<SessionId, u64>,
    /// Connections with a WAIT that has no reply.
    pub waiting: BTreeSet<SocketId>,
    sessions: BTreeMap<SocketId, SessionId>,
    sockets: BTreeMap<SessionId, SocketId>,
    /// Sends the commands of the conductor.
    admin: SessionId,
    /// What has arrived during a pause.
    backlog: Option<Vec<(SocketId, Input)>>,
    /// Connections whose requests or replies are lost.
    mute: BTreeMap<SocketId, Mute>,
    /// Requests that are executed later, whatever becomes of their connection.
    held_back: Vec<Vec<Vec<u8>>>,
    plans: BTreeMap<ProcessId, Plan>,
    /// Processes that may not subscribe.
    pub deaf: BTreeSet<ProcessId>,
    /// How many connections it accepts.
    pub most_connections: usize,
    /// Logs each command and its reply.
    traces: bool,
    /// Its clock gains this many nanoseconds in each second.
    drift: i64,
    /// By how many nanoseconds its clock is ahead; negative if it was set back.
    pub ahead: i64,
}

enum Input {
    Bytes(Vec<u8>),
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mute {
    /// Requests are not executed.
    Requests,
    /// Requests are executed, and replies are lost.
    Replies,
}

impl RedisServer {
    /// A server without keys that listens at this address.
    pub fn start(address: SocketAddr, drift: i64) -> Rc<RefCell<Self>> {
        let mut machine = Server::new(KnownScripts::default()).expect("Lua has memory");
        let server = Rc::new_cyclic(|own| {
            RefCell::new(Self {
                address,
                own: Weak::clone(own),
                master: None,
                replication: Replication::default(),
                member: None,
                written: BTreeMap::new(),
                waiting: BTreeSet::new(),
                admin: machine.open("conductor".into()),
                machine,
                sessions: BTreeMap::new(),
                sockets: BTreeMap::new(),
                backlog: None,
                mute: BTreeMap::new(),
                held_back: Vec::new(),
                plans: BTreeMap::new(),
                deaf: BTreeSet::new(),
                most_connections: usize::MAX,
                traces: std::env::var_os("TRACE").is_some(),
                drift,
                ahead: 0,
            })
        });
        network::serve(address, Rc::clone(&server) as _);
        server
    }

    /// Closes all connections, and forgets all keys and scripts.
    pub fn restart(&mut self) {
        self.machine = Server::new(KnownScripts::default()).expect("Lua has memory");
        self.admin = self.machine.open("conductor".into());
        (self.sessions, self.sockets) = (BTreeMap::new(), BTreeMap::new());
        self.mute.clear();
        self.held_back.clear();
        self.backlog = None;
        self.written.clear();
        self.waiting.clear();
        if let Some(Member { group, slots, .. }) = self.member.take() {
            self.join(group, slots);
        }
        self.replicate();
    }

    /// Reads the keys as they are now.
    pub fn with_keys<T>(&mut self, read: impl FnOnce(&mut Keyspace) -> T) -> T {
        self.set_time();
        self.machine.with_keys(read)
    }

    /// Changes the keys, as a command would.
    pub fn change_keys<T>(&mut self, change: impl FnOnce(&mut Keyspace) -> T) -> T {
        let result = self.with_keys(change);
        self.replicate();
        result
    }

    /// A copy of the keys as they are now.
    pub fn keys(&mut self) -> Keyspace {
        self.with_keys(|keys| keys.clone())
    }

    /// The names of the keys in a slot.
    pub fn keys_of(&mut self, slot: u16) -> Vec<Vec<u8>> {
        let mut names = self.with_keys(|keys| keys.keys());
        names.retain(|name| slot_of(name) == slot);
        names
    }

    /// Runs a script of the simulation.
    pub fn admin_script(&mut self, source: &[u8]) {
        let command = [&b"EVAL"[..], source, b"0"].map(<[u8]>::to_vec);
        let reply = self.execute(self.admin, command.into());
        assert!(
            !reply.starts_with(b"-"),
            "{}",
            String::from_utf8_lossy(&reply)
        );
    }

    /// Sends the keys to the replicas.
    fn replicate(&mut self) {
        let replication = &mut self.replication;
        self.machine.with_keys(|keys| replication.send(keys));
    }

    pub fn set_plan(&mut self, process: ProcessId, plan: Plan) {
        self.plans.insert(process, plan);
    }

    /// Executes the requests that were held back, if the server still serves their keys.
    pub fn deliver(&mut self) {
        for command in std::mem::take(&mut self.held_back) {
            if self.refusal(&command, false).is_none() {
                self.execute(self.admin, command);
            }
        }
    }

    /// Executes a command of the conductor. The reply as it would be sent.
    pub fn query(&mut self, words: &[&str]) -> String {
        let command = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let reply = self.execute(self.admin, command);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// Executes a command, sends its messages, and returns its replies.
    pub fn execute(&mut self, session: SessionId, command: Vec<Vec<u8>>) -> Vec<u8> {
        self.set_time();
        if random::one_in(EXPIRES) {
            self.machine.with_keys(Keyspace::expire_all);
        }
        let is_write = is_write(&command);
        let is_traced = self.traces && session != self.admin;
        let words = is_traced.then(|| text(&command.join(&b' ')));
        let mut replies = Vec::new();
        for (receiver, bytes) in self.machine.execute(session, command) {
            if receiver == session {
                replies.extend(bytes);
            } else {
                self.send_message(receiver, &bytes);
            }
        }
        for failure in self.machine.take_unknown() {
            let answer = format!("a script calls what the server does not know: {failure}");
            Log::of(CONDUCTOR).write(clock::now(), 0, Event::Wrong { call: 0, answer });
        }
        if is_write {
            self.replicate();
            self.written.insert(session, self.replication.commands());
        }
        if let Some(words) = words {
            let process = self.sockets.get(&session);
            let process = process.and_then(|socket| network::process_of(*socket));
            let process = process.unwrap_or_default();
            let server = self.address.ip();
            self.note(&format!(
                "{process} to {server}: {words} -> {}",
                text(&replies)
            ));
        }
        replies
    }

    fn note(&self, text: &str) {
        // Not a time of its own, so that a run with these notes is the same as one without.
        let note = Event::Note {
            text: text.to_owned(),
        };
        Log::of(CONDUCTOR).write(time::now(), 0, note);
    }

    fn set_time(&mut self) {
        let now = i128::from(time::now());
        let gained = now * i128::from(self.drift) / 1_000_000_000;
        let shown = now + gained + i128::from(self.ahead);
        let micros = i64::try_from(shown / 1000).unwrap_or(i64::MAX);
        self.machine.set_time(BEGIN + micros);
    }

    /// The reply to a command that the server does not execute itself.
    fn answer(
        &mut self,
        socket: SocketId,
        session: SessionId,
        command: &[Vec<u8>],
    ) -> Option<Vec<u8>> {
        let is_deaf = network::process_of(socket).is_some_and(|one| self.deaf.contains(&one));
        if is_deaf && [&b"SUBSCRIBE"[..], b"SSUBSCRIBE"].contains(&&**command.first()?) {
            return Some(NO_PERMISSION.into());
        }
        if let Some(reply) = self.answer_of_cluster(socket, session, command) {
            return Some(reply);
        }
        let master = self.master?;
        match &*command.first()?.to_ascii_lowercase() {
            b"role" => {
                let (host, port) = (master.ip().to_string(), master.port());
                let reply = format!(
                    "*5\r\n$5\r\nslave\r\n${}\r\n{host}\r\n:{port}\r\n$9\r\nconnected\r\n:0\r\n",
                    host.len()
                );
                Some(reply.into_bytes())
            }
            _ if is_write(command) => Some(READ_ONLY.into()),
            _ => None,
        }
    }
}

/// Bytes of the protocol in one line.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", " ");
    text.replace('\n', "\\")
}

/// True if the command can change keys.
fn is_write(command: &[Vec<u8>]) -> bool {
    let name = command.first().map(|name| name.to_ascii_lowercase());
    let name = name.unwrap_or_default();
    name.starts_with(b"eval") || [&b"set"[..], b"del"].contains(&&*name)
}
