//! Ports that remain reserved while their server is down.
//!
//! A restarted server needs its old port. So the port must not be one that the system gives to
//! outgoing connections, nor one that another test takes meanwhile: it is below the system's range,
//! and a socket with a name tells other processes that it is taken.

use std::collections::HashSet;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::HOST;

const LOWEST: u16 = 12_000;

/// What Redis adds to the port of a node in a cluster, for the messages between nodes.
const TO_THE_BUS: u16 = 10_000;

/// The ports that this process has used. A port is not used again, so that a message which names it
/// belongs to one test.
static USED: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port that no other test takes while the value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// A socket with an abstract name, which is no file and ends with the process.
    _reservation: UnixListener,
}

impl Port {
    /// A port that is free now.
    pub fn reserve() -> Self {
        let highest = first_of_the_system() - 1;
        loop {
            if let Some(port) = Self::try_reserve(fastrand::u16(LOWEST..=highest)) {
                return port;
            }
        }
    }

    /// The two ports of a node in a cluster. Before Redis 7 the second one cannot be chosen.
    pub fn reserve_with_bus() -> (Self, Self) {
        let highest = first_of_the_system() - 1 - TO_THE_BUS;
        loop {
            let number = fastrand::u16(LOWEST..=highest);
            if let Some(port) = Self::try_reserve(number)
                && let Some(bus) = Self::try_reserve(number + TO_THE_BUS)
            {
                return (port, bus);
            }
        }
    }

    fn try_reserve(number: u16) -> Option<Self> {
        if !USED.lock().insert(number) {
            return None;
        }
        let reservation = reserve_name(number)?;
        // A server of another program may listen there.
        TcpListener::bind((HOST, number)).ok()?;
        Some(Self {
            number,
            _reservation: reservation,
        })
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

fn reserve_name(number: u16) -> Option<UnixListener> {
    let name = format!("leasehold-test-port-{number}");
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    UnixListener::bind_addr(&name).ok()
}

/// The first port of outgoing connections.
fn first_of_the_system() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range.ok().and_then(|range| {
        let first = range.split_whitespace().next()?;
        first.parse().ok()
    });
    // The default of most systems. A machine with a lower one has no port below.
    first
        .filter(|first| *first > LOWEST + TO_THE_BUS + 1000)
        .unwrap_or(32_768)
}

#[test]
fn a_reserved_port_leaves_no_file() {
    let files = || -> HashSet<_> {
        let entries = std::fs::read_dir(std::env::temp_dir()).expect("a folder");
        entries.flatten().map(|entry| entry.file_name()).collect()
    };
    let before = files();
    let ports: Vec<_> = (0..20).map(|_| Port::reserve()).collect();
    let new: Vec<_> = files().difference(&before).cloned().collect();
    for port in ports {
        let number = format!("-port-{}", port.number());
        let left = new
            .iter()
            .find(|name| name.to_string_lossy().ends_with(&number));
        assert_eq!(left, None);
        // Another process cannot reserve it.
        assert!(reserve_name(port.number()).is_none());
    }
}
