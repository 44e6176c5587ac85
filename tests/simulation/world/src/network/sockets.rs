//! The calls of a process for its sockets.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use super::delivery::{arrive, send_message, wake_all};
use super::{Connection, Message, Socket, SocketId, State, TO_SERVICE, network, socket_of};
use crate::processes::ProcessId;
use crate::{processes, random, tasks, time};

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
