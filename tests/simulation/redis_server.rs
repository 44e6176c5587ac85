//! A Redis in the simulated world: the in-memory server with its real scripts, as a service of the
//! network, with faults.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use leasehold_simulation_world::network::{self, Service, SocketId};
use leasehold_simulation_world::processes::ProcessId;
use leasehold_simulation_world::{random, time};

use crate::clock;
use crate::known_scripts::KnownScripts;
use crate::log::{CONDUCTOR, Event, Log};
use crate::server::{Server, SessionId};

/// When the world begins, in microseconds since 1970.
const BEGIN: i64 = 1_700_000_000_000_000;

pub struct RedisServer {
    machine: Server,
    sessions: BTreeMap<SocketId, SessionId>,
    sockets: BTreeMap<SessionId, SocketId>,
    /// Sends the commands of the conductor.
    admin: SessionId,
    /// What has arrived during a pause.
    backlog: Option<Vec<(SocketId, Input)>>,
    /// Connections on which nothing goes on.
    mute: BTreeMap<SocketId, Mute>,
    /// Requests that are executed later, whatever becomes of their connection.
    held_back: Vec<Vec<Vec<u8>>>,
    plans: BTreeMap<ProcessId, Plan>,
    /// How many connections it accepts.
    pub most_connections: usize,
    /// Logs each command and its reply.
    traces: bool,
    /// Its clock gains this many nanoseconds in each second.
    drift: i64,
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

/// What happens to the requests and the messages of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// A fault meets one of this many requests; 0: none.
    pub one_of: u64,
    /// The only fault; `None`: any.
    pub fault: Option<Fault>,
    /// Percent.
    pub lost_messages: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection does not reply any more, and executes nothing.
    LoseRequest,
    /// The connection does not reply any more.
    LoseReply,
    /// The connection is reset after the request was executed.
    ResetBeforeReply,
    /// As [`LoseRequest`](Self::LoseRequest), and the request is executed later.
    HoldBack,
}

impl Fault {
    const ALL: [Self; 4] = [
        Self::LoseRequest,
        Self::LoseReply,
        Self::ResetBeforeReply,
        Self::HoldBack,
    ];

    pub fn any() -> Self {
        Self::ALL[random::index(Self::ALL.len())]
    }
}

impl RedisServer {
    /// A server without keys that listens at this address.
    pub fn start(address: SocketAddr, drift: i64) -> Rc<RefCell<Self>> {
        let mut machine = Server::new(KnownScripts::default()).expect("Lua has memory");
        let server = Self {
            admin: machine.open("conductor".into()),
            machine,
            sessions: BTreeMap::new(),
            sockets: BTreeMap::new(),
            backlog: None,
            mute: BTreeMap::new(),
            held_back: Vec::new(),
            plans: BTreeMap::new(),
            most_connections: usize::MAX,
            traces: std::env::var_os("TRACE").is_some(),
            drift,
        };
        let server = Rc::new(RefCell::new(server));
        network::serve(address, Rc::clone(&server) as _);
        server
    }

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

    /// Closes all connections, and forgets all keys and scripts.
    pub fn restart(&mut self) {
        self.machine = Server::new(KnownScripts::default()).expect("Lua has memory");
        self.admin = self.machine.open("conductor".into());
        (self.sessions, self.sockets) = (BTreeMap::new(), BTreeMap::new());
        self.mute.clear();
        self.held_back.clear();
    }

    pub fn set_plan(&mut self, process: ProcessId, plan: Plan) {
        self.plans.insert(process, plan);
    }

    /// Executes the requests that were held back.
    pub fn deliver(&mut self) {
        for command in std::mem::take(&mut self.held_back) {
            self.execute(self.admin, command);
        }
    }

    /// Executes a command of the conductor. The reply as it would be sent.
    pub fn query(&mut self, words: &[&str]) -> String {
        let command = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let reply = self.execute(self.admin, command);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// Executes a command, sends its messages, and returns its replies.
    fn execute(&mut self, session: SessionId, command: Vec<Vec<u8>>) -> Vec<u8> {
        let now = i128::from(time::now());
        let shown = now + now * i128::from(self.drift) / 1_000_000_000;
        let micros = i64::try_from(shown / 1000).unwrap_or(i64::MAX);
        self.machine.set_time(BEGIN + micros);
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
        if let Some(words) = words {
            let process = self.sockets.get(&session);
            let process = process.and_then(|socket| network::process_of(*socket));
            let process = process.unwrap_or_default();
            self.note(&format!("{process} {words} -> {}", text(&replies)));
        }
        replies
    }

    fn note(&self, text: &str) {
        // Not a time of its own, so that a run with these notes is the same as one without.
        let note = Event::Note(text.to_owned());
        Log::of(CONDUCTOR).write(time::now(), 0, note);
    }

    fn send_message(&self, receiver: SessionId, bytes: &[u8]) {
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
    fn serve(&mut self, socket: SocketId, session: SessionId) {
        loop {
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
                .then(|| plan.fault.unwrap_or_else(Fault::any));
            match fault {
                Some(Fault::LoseRequest) => {
                    self.mute.insert(socket, Mute::Requests);
                    continue;
                }
                Some(Fault::HoldBack) => {
                    self.mute.insert(socket, Mute::Requests);
                    self.held_back.push(command);
                    continue;
                }
                Some(Fault::LoseReply) => {
                    self.mute.insert(socket, Mute::Replies);
                }
                Some(Fault::ResetBeforeReply) | None => {}
            }
            let replies = self.execute(session, command);
            if fault == Some(Fault::ResetBeforeReply) {
                // The network has this server borrowed.
                time::at(time::now(), move || network::reset_one(socket));
                self.mute.insert(socket, Mute::Requests);
            }
            if !self.mute.contains_key(&socket) && !replies.is_empty() {
                network::reply(socket, &replies);
            }
        }
    }

    fn forget(&mut self, socket: SocketId) {
        self.mute.remove(&socket);
        if let Some(session) = self.sessions.remove(&socket) {
            self.sockets.remove(&session);
            self.machine.close(session);
        }
    }
}

/// Bytes of the protocol in one line.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", " ");
    text.replace('\n', "\\")
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
