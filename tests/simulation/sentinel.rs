//! A sentinel: says which server is the master, as far as it knows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use leasehold_simulation_world::network::{self, Service, SocketId};

use crate::frame;

/// The name of the master.
pub const MASTER: &str = "locks";

pub struct Sentinel {
    pub master: SocketAddr,
    /// What has arrived on each connection, and is not a whole command.
    received: BTreeMap<SocketId, Vec<u8>>,
}

impl Sentinel {
    /// A sentinel that listens at this address.
    pub fn start(address: SocketAddr, master: SocketAddr) -> Rc<RefCell<Self>> {
        let sentinel = Rc::new(RefCell::new(Self {
            master,
            received: BTreeMap::new(),
        }));
        network::serve(address, Rc::clone(&sentinel) as _);
        sentinel
    }

    fn reply(&self, command: &[Vec<u8>]) -> String {
        let words: Vec<String> = command
            .iter()
            .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase())
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["ping"] => "+PONG\r\n".into(),
            ["sentinel", "get-master-addr-by-name", MASTER] => {
                let (host, port) = (self.master.ip().to_string(), self.master.port().to_string());
                let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
                format!("*2\r\n{}{}", text(&host), text(&port))
            }
            _ => format!("-ERR unknown command '{}'\r\n", words.join(" ")),
        }
    }
}

impl Service for Sentinel {
    fn open(&mut self, connection: SocketId) -> bool {
        self.received.insert(connection, Vec::new());
        true
    }

    fn receive(&mut self, connection: SocketId, bytes: &[u8]) {
        let Some(received) = self.received.get_mut(&connection) else {
            return;
        };
        received.extend(bytes);
        let mut commands = Vec::new();
        while let Ok(Some((length, command))) = frame::request(received) {
            received.drain(..length);
            commands.push(command);
        }
        for command in commands {
            network::reply(connection, self.reply(&command).as_bytes());
        }
    }

    fn close(&mut self, connection: SocketId) {
        self.received.remove(&connection);
    }
}
