//! Connections between the sockets of processes and services, which are servers outside of all
//! processes.
//!
//! As with TCP, what is sent on a connection arrives in its order, or not at all once the
//! connection has ended. It can arrive late, and after the sender has closed the connection.

mod delivery;
mod sockets;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::processes::ProcessId;
use crate::tasks::TaskId;
use crate::world;
use delivery::{send_message, set_state};
pub(crate) use sockets::close_all;
pub use sockets::{
    close, connect, connect_to_itself, is_readable, poll, receive, send, set_read_timeout,
    shut_down, socket,
};

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
