//! A connection that speaks the protocol of Redis, without the library under test.

use std::net::SocketAddr;

use leasehold_simulation_world::network::{self, SocketId};
use leasehold_simulation_world::time;

use crate::frame;

/// Closed when it is dropped.
pub struct Connection {
    socket: SocketId,
    arrived: Vec<u8>,
}

impl Connection {
    /// `None` if the server does not answer within this time, in nanoseconds.
    pub fn open(server: SocketAddr, timeout: u64) -> Option<Self> {
        let connection = Self {
            socket: network::socket(),
            arrived: Vec::new(),
        };
        network::connect(connection.socket, server, timeout).ok()?;
        Some(connection)
    }

    /// Sends a command and returns its reply, as it was sent. `None` if there is none by then.
    pub fn command(&mut self, words: &[&str], until: u64) -> Option<String> {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        let mut left = bytes.as_bytes();
        while !left.is_empty() {
            let sent = network::send(self.socket, left).ok()?;
            left = &left[sent..];
        }
        self.next(until)
    }

    /// The next reply or message. `None` if there is none by then, or the connection has ended.
    pub fn next(&mut self, until: u64) -> Option<String> {
        loop {
            if let Some(length) = frame::reply(&self.arrived).ok()? {
                let reply: Vec<u8> = self.arrived.drain(..length).collect();
                return String::from_utf8(reply).ok();
            }
            let mut buffer = [0; 4096];
            let left = until.saturating_sub(time::now());
            network::set_read_timeout(self.socket, Some(left));
            match network::receive(self.socket, &mut buffer, left > 0).ok()? {
                0 => return None,
                count => self.arrived.extend(&buffer[..count]),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        network::close(self.socket);
    }
}
