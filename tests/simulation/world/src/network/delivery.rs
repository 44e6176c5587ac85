//! Sends messages on connections, and delivers them.

use super::{
    Message, SocketId, State, TO_PROCESS, TO_SERVICE, connection_of, network, with_service,
};
use crate::{random, tasks, time};

pub(super) fn send_message(id: SocketId, direction: usize, message: Message) {
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

pub(super) fn arrive(id: SocketId, bytes: &[u8]) {
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
pub(super) fn set_state(id: SocketId, state: State) {
    network(|network| {
        let socket = network.sockets.get_mut(&id);
        if let Some(socket) = socket.filter(|socket| socket.state != State::ShutDown) {
            socket.state = state;
        }
    });
    wake_all(id);
}

pub(super) fn wake_all(id: SocketId) {
    let waiting = network(|network| {
        let socket = network.sockets.get_mut(&id);
        socket.map(|socket| std::mem::take(&mut socket.waiting))
    });
    waiting
        .unwrap_or_default()
        .into_iter()
        .for_each(tasks::wake);
}
