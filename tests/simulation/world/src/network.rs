//! Connections between the sockets of processes and services, which are servers outside of all
//! processes.
//!
//! As with TCP, what is sent on a connection arrives in its order, or not at all once the
//! connection has ended. It can arrive late, and after the sender has closed the connection.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;

use crate::processes::ProcessId;
use crate::tasks::TaskId;
use crate::{processes, random, tasks, time, world};

/// A socket. No number is used twice. The connection of a socket has its number.
pub type SocketId = u64;

/// A server, which several connections reach.
pub trait Service {
    /// A connection is opened. False: it is refused.
    fn open(&mut self, connection: SocketId) -> bool;
    /// Bytes arrive.
    fn receive(&mut self, connection: SocketId, bytes: &[u8]);
    /// The peer has closed the connection.
    fn close(&mut self, connection: SocketId);
}

/// What one process and one service have between them.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// How long a message takes, in nanoseconds.
    pub latency: (u64, u64),
    /// Once in this many messages, one takes as long as this instead; 0: never.
    pub late: (u64, u64),
    /// Nothing arrives, in the direction to the service or to the process.
    pub is_cut: [bool; 2],
}

impl Default for Path {
    fn default() -> Self {
        Self {
            latency: (20_000, 120_000),
            late: (0, 0),
            is_cut: [false; 2],
        }
    }
}

const TO_SERVICE: usize = 0;
const TO_PROCESS: usize = 1;

#[derive(Default)]
pub(crate) struct Network {
    services: BTreeMap<SocketAddr, Rc<RefCell<dyn Service>>>,
    paths: BTreeMap<(ProcessId, SocketAddr), Path>,
    sockets: BTreeMap<SocketId, Socket>,
    connections: BTreeMap<SocketId, Connection>,
    last: SocketId,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

/// The end of a connection that a process has, or a socket that signals to itself.
#[derive(Debug, Default)]
struct Socket {
    process: ProcessId,
    arrived: VecDeque<u8>,
    state: State,
    waiting: Vec<TaskId>,
    read_timeout: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    New,
    Open,
    /// No more bytes arrive.
    Ended,
    Reset,
    Refused,
    /// By this end.
    ShutDown,
}

/// Exists while bytes can be under way.
#[derive(Debug)]
struct Connection {
    process: ProcessId,
    service: SocketAddr,
    /// The service knows it.
    is_open: bool,
    /// The process has closed its end.
    is_closed: bool,
    /// When the last message in each direction arrives.
    last: [u64; 2],
    /// What waits for the end of a cut, in each direction.
    stuck: [Vec<Message>; 2],
}

#[derive(Clone, Debug)]
enum Message {
    Open,
    Opened,
    Refused,
    Bytes(Rc<[u8]>),
    /// The sender sends nothing more.
    End,
    Reset,
}

/// Adds a service, or replaces the one at this address.
pub fn serve(address: SocketAddr, service: Rc<RefCell<dyn Service>>) {
    world(|world| world.network.borrow_mut().services.insert(address, service));
}

/// No service is at the address from now on, and its connections are reset.
pub fn stop_serving(address: SocketAddr) {
    network(|network| network.services.remove(&address));
    reset_connections(|_, connection| connection.service == address);
}

/// Ends all connections of the process to the service.
pub fn reset(process: ProcessId, service: SocketAddr) {
    reset_connections(|_, one| (one.process, one.service) == (process, service));
}

fn reset_connections(which: impl Fn(SocketId, &Connection) -> bool) {
    let ids: Vec<SocketId> = network(|network| {
        let connections = network.connections.iter();
        let reset = connections.filter(|(id, connection)| which(**id, connection));
        reset.map(|(id, _)| *id).collect()
    });
    for id in ids {
        if let Some(connection) = network(|network| network.connections.remove(&id)) {
            if connection.is_open {
                with_service(connection.service, |service| service.close(id));
            }
            set_state(id, State::Reset);
        }
    }
}

/// Changes what a process and a service have between them. What waited for the end of a cut
/// arrives then.
pub fn set_path(process: ProcessId, service: SocketAddr, change: impl FnOnce(&mut Path)) {
    let stuck = network(|network| {
        let path = network.paths.entry((process, service)).or_default();
        change(path);
        let is_cut = path.is_cut;
        let mut stuck = Vec::new();
        for (id, connection) in &mut network.connections {
            if (connection.process, connection.service) != (process, service) {
                continue;
            }
            for direction in [TO_SERVICE, TO_PROCESS] {
                if !is_cut[direction] {
                    let messages = std::mem::take(&mut connection.stuck[direction]);
                    stuck.extend(messages.into_iter().map(|one| (*id, direction, one)));
                }
            }
        }
        stuck
    });
    for (id, direction, message) in stuck {
        send_message(id, direction, message);
    }
}

/// Sends bytes from a service.
pub fn reply(connection: SocketId, bytes: &[u8]) {
    send_message(connection, TO_PROCESS, Message::Bytes(bytes.into()));
}

/// Closes a connection from the side of its service, which forgets it.
pub fn hang_up(connection: SocketId) {
    network(|network| {
        if let Some(connection) = network.connections.get_mut(&connection) {
            connection.is_open = false;
        }
    });
    send_message(connection, TO_PROCESS, Message::End);
}

/// Ends one connection.
pub fn reset_one(connection: SocketId) {
    reset_connections(|id, _| id == connection);
}

/// The process that has a connection.
#[must_use]
pub fn process_of(connection: SocketId) -> Option<ProcessId> {
    connection_of(connection, |connection| connection.process)
}

/// Makes a socket of the running thread's process.
#[must_use]
pub fn socket() -> SocketId {
    let process = processes::current();
    network(|network| {
        network.last += 1;
        let socket = Socket {
            process,
            ..Socket::default()
        };
        network.sockets.insert(network.last, socket);
        network.last
    })
}

/// Connects a new socket within this time, in nanoseconds.
///
/// # Errors
///
/// If no service listens there, or the time is over.
pub fn connect(id: SocketId, service: SocketAddr, timeout: u64) -> io::Result<()> {
    let process = processes::current();
    let connection = Connection {
        process,
        service,
        is_open: false,
        is_closed: false,
        last: [0; 2],
        stuck: [Vec::new(), Vec::new()],
    };
    network(|network| network.connections.insert(id, connection));
    send_message(id, TO_SERVICE, Message::Open);
    let deadline = time::now() + timeout;
    loop {
        match state(id) {
            State::New if time::now() >= deadline => return Err(ErrorKind::TimedOut.into()),
            State::New => wait_for(id, Some(deadline)),
            State::Refused | State::Reset => return Err(ErrorKind::ConnectionRefused.into()),
            State::Open | State::Ended | State::ShutDown => return Ok(()),
        }
    }
}

/// Makes the socket signal to itself.
pub fn connect_to_itself(id: SocketId) {
    socket_of(id, |socket| socket.state = State::Open);
}

/// Sends bytes, at least one. Does not wait.
///
/// # Errors
///
/// If the connection has ended.
pub fn send(id: SocketId, bytes: &[u8]) -> io::Result<usize> {
    tasks::preempt();
    match state(id) {
        State::Open | State::Ended => {}
        _ => return Err(ErrorKind::BrokenPipe.into()),
    }
    let is_to_itself = network(|network| !network.connections.contains_key(&id));
    if is_to_itself {
        arrive(id, bytes);
        return Ok(bytes.len());
    }
    // The buffer of the system has room for a part.
    let length = match bytes.len() {
        0 | 1 => bytes.len(),
        length if random::one_in(256) => 1 + random::index(length - 1),
        length => length,
    };
    send_message(id, TO_SERVICE, Message::Bytes(bytes[..length].into()));
    Ok(length)
}

/// Takes what has arrived, or waits for it as long as the timeout for reads.
///
/// # Errors
///
/// If nothing has arrived in time, or the connection is reset.
pub fn receive(id: SocketId, buffer: &mut [u8], may_wait: bool) -> io::Result<usize> {
    tasks::preempt();
    let timeout = socket_of(id, |socket| socket.read_timeout);
    let deadline = timeout.map(|timeout| time::now() + timeout);
    loop {
        let taken = socket_of(id, |socket| {
            let count = buffer.len().min(socket.arrived.len());
            for (to, byte) in buffer.iter_mut().zip(socket.arrived.drain(..count)) {
                *to = byte;
            }
            (count, socket.state)
        });
        match taken {
            (count, _) if count > 0 => return Ok(count),
            (_, State::Reset) => return Err(ErrorKind::ConnectionReset.into()),
            (_, State::Ended | State::ShutDown) => return Ok(0),
            (_, State::New | State::Refused) => return Err(ErrorKind::NotConnected.into()),
            (_, State::Open) => {}
        }
        if !may_wait || deadline.is_some_and(|deadline| time::now() >= deadline) {
            return Err(ErrorKind::WouldBlock.into());
        }
        wait_for(id, deadline);
    }
}

/// Limits the waits of [`receive`].
pub fn set_read_timeout(id: SocketId, timeout: Option<u64>) {
    socket_of(id, |socket| socket.read_timeout = timeout);
}

/// True if a read does not wait.
#[must_use]
pub fn is_readable(id: SocketId) -> bool {
    socket_of(id, |socket| {
        !socket.arrived.is_empty() || socket.state != State::Open
    })
}

/// Waits until one of the sockets is readable, or another condition is true, at most until then.
/// Returns at once if `is_ready` is true.
pub fn poll(ids: &[SocketId], deadline: u64, is_ready: impl Fn() -> bool) {
    tasks::preempt();
    while !is_ready() && time::now() < deadline {
        let task = tasks::current();
        for id in ids {
            socket_of(*id, |socket| socket.waiting.push(task));
        }
        tasks::wait(Some(deadline));
        for id in ids {
            socket_of(*id, |socket| socket.waiting.retain(|one| *one != task));
        }
    }
}

/// Ends both directions of a connection, or the one to the service.
pub fn shut_down(id: SocketId, both: bool) {
    let is_new = socket_of(id, |socket| {
        let is_new = socket.state != State::ShutDown;
        if both {
            socket.state = State::ShutDown;
        }
        is_new
    });
    if is_new {
        send_message(id, TO_SERVICE, Message::End);
        wake_all(id);
    }
}

/// Closes a socket.
pub fn close(id: SocketId) {
    let socket = network(|network| network.sockets.remove(&id));
    if socket.is_some_and(|socket| socket.state != State::ShutDown) {
        send_message(id, TO_SERVICE, Message::End);
    }
    network(|network| {
        if let Some(connection) = network.connections.get_mut(&id) {
            connection.is_closed = true;
        }
    });
}

/// Closes the sockets of a dead process.
pub(crate) fn close_all(process: ProcessId) {
    let ids: Vec<SocketId> = network(|network| {
        let sockets = network.sockets.iter();
        let own = sockets.filter(|(_, socket)| socket.process == process);
        own.map(|(id, _)| *id).collect()
    });
    ids.into_iter().for_each(close);
}

fn send_message(id: SocketId, direction: usize, message: Message) {
    let now = time::now();
    let arrives = network(|network| {
        let connection = network.connections.get(&id)?;
        let key = (connection.process, connection.service);
        Some(network.paths.get(&key).copied().unwrap_or_default())
    });
    let Some(path) = arrives else {
        return;
    };
    // Behind what is under way it arrives later, and waits then.
    let is_behind = connection_of(id, |connection| connection.last[direction] > now);
    if path.is_cut[direction] && is_behind == Some(false) {
        connection_of(id, |connection| connection.stuck[direction].push(message));
        return;
    }
    let takes = match random::one_in(path.late.0) {
        true => random::between(path.latency.1..=path.late.1.max(path.latency.1)),
        false => random::between(path.latency.0..=path.latency.1),
    };
    let at = connection_of(id, |connection| {
        let last = &mut connection.last[direction];
        *last = (now + takes).max(*last + 1);
        *last
    });
    if let Some(at) = at {
        time::at(at, move || deliver(id, direction, &message));
    }
}

fn deliver(id: SocketId, direction: usize, message: &Message) {
    let Some(connection) = network(|network| {
        let connection = network.connections.get_mut(&id)?;
        let key = (connection.process, connection.service);
        let is_cut = network
            .paths
            .get(&key)
            .is_some_and(|path| path.is_cut[direction]);
        if is_cut {
            // It was under way when the cut began.
            connection.stuck[direction].push(message.clone());
            return None;
        }
        Some((connection.service, connection.is_open, connection.is_closed))
    }) else {
        return;
    };
    let (service, is_open, is_closed) = connection;
    match message {
        Message::Open => {
            let is_accepted = with_service(service, |service| service.open(id)).unwrap_or(false);
            connection_of(id, |connection| connection.is_open = is_accepted);
            let reply = match is_accepted {
                true => Message::Opened,
                false => Message::Refused,
            };
            send_message(id, TO_PROCESS, reply);
        }
        Message::Bytes(bytes) if direction == TO_SERVICE => {
            if is_open {
                with_service(service, |service| service.receive(id, bytes));
            } else {
                send_message(id, TO_PROCESS, Message::Reset);
            }
        }
        Message::End if direction == TO_SERVICE => {
            if is_open {
                with_service(service, |service| service.close(id));
            }
            send_message(id, TO_PROCESS, Message::End);
            connection_of(id, |connection| connection.is_open = false);
            if is_closed {
                network(|network| network.connections.remove(&id));
            }
        }
        Message::Bytes(bytes) => arrive(id, bytes),
        Message::Opened => set_state(id, State::Open),
        Message::Refused => {
            set_state(id, State::Refused);
            network(|network| network.connections.remove(&id));
        }
        Message::End => set_state(id, State::Ended),
        Message::Reset => set_state(id, State::Reset),
    }
}

fn arrive(id: SocketId, bytes: &[u8]) {
    let is_there = network(|network| {
        let socket = network.sockets.get_mut(&id);
        let open = socket.filter(|socket| socket.state == State::Open);
        open.map(|socket| socket.arrived.extend(bytes))
    });
    if is_there.is_some() {
        wake_all(id);
    }
}

/// The end of a connection does not undo its shut-down.
fn set_state(id: SocketId, state: State) {
    network(|network| {
        let socket = network.sockets.get_mut(&id);
        if let Some(socket) = socket.filter(|socket| socket.state != State::ShutDown) {
            socket.state = state;
        }
    });
    wake_all(id);
}

fn wake_all(id: SocketId) {
    let waiting = network(|network| {
        let socket = network.sockets.get_mut(&id);
        socket.map(|socket| std::mem::take(&mut socket.waiting))
    });
    waiting
        .unwrap_or_default()
        .into_iter()
        .for_each(tasks::wake);
}

/// Waits until something happens to the socket.
fn wait_for(id: SocketId, until: Option<u64>) {
    let task = tasks::current();
    socket_of(id, |socket| socket.waiting.push(task));
    tasks::wait(until);
    socket_of(id, |socket| socket.waiting.retain(|one| *one != task));
}

fn state(id: SocketId) -> State {
    socket_of(id, |socket| socket.state)
}

fn socket_of<T>(id: SocketId, change: impl FnOnce(&mut Socket) -> T) -> T {
    network(|network| change(network.sockets.get_mut(&id).expect("it is open")))
}

fn connection_of<T>(id: SocketId, change: impl FnOnce(&mut Connection) -> T) -> Option<T> {
    network(|network| network.connections.get_mut(&id).map(change))
}

fn with_service<T>(address: SocketAddr, call: impl FnOnce(&mut dyn Service) -> T) -> Option<T> {
    let service = network(|network| network.services.get(&address).cloned())?;
    let result = call(&mut *service.borrow_mut());
    Some(result)
}

fn network<T>(use_it: impl FnOnce(&mut Network) -> T) -> T {
    world(|world| use_it(&mut world.network.borrow_mut()))
}
