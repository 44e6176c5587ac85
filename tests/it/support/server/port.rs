//! Ports that remain reserved while their server is down.
//!
//! A restarted server needs its old port. So the port must not be one that the system gives to
//! outgoing connections, nor one that another test takes meanwhile: it is below the system's range,
//! and a locked file tells other processes that it is taken.

use std::collections::HashSet;
use std::fs::File;
use std::net::TcpListener;
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
    /// The lock ends with the file, and with the process.
    _reservation: File,
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
        let path = std::env::temp_dir().join(format!("leasehold-test-port-{number}"));
        let reservation = File::create(path).ok()?;
        reservation.try_lock().ok()?;
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
