//! The servers that have locks, by slot. Pure: no clock, no I/O, no lock.

use std::sync::Arc;

use crate::base::key::SLOTS;
use crate::transport::server::Server;

/// Ranges of slots, first and last included, with their server. A later range counts.
#[derive(Debug, Default)]
pub(super) struct Map(Vec<(u16, u16, Arc<Server>)>);

impl Map {
    /// A map in which this server has all slots.
    pub(super) fn of_one(server: Arc<Server>) -> Self {
        Self(vec![(0, SLOTS - 1, server)])
    }

    pub(super) fn assign(&mut self, first: u16, last: u16, server: Arc<Server>) {
        self.0.retain(|range| (range.0, range.1) != (first, last));
        self.0.push((first, last, server));
    }

    /// The server that has the slot.
    pub(super) fn server(&self, slot: u16) -> Option<&Arc<Server>> {
        let mut ranges = self.0.iter().rev();
        let found = ranges.find(|(first, last, _)| (first..=last).contains(&&slot));
        found.map(|(.., server)| server)
    }

    /// The server with this name.
    pub(super) fn named(&self, name: &str) -> Option<&Arc<Server>> {
        let mut servers = self.0.iter().map(|(.., server)| server);
        servers.find(|server| &**server.name() == name)
    }

    /// All servers, each of them once.
    pub(super) fn servers(&self) -> Vec<Arc<Server>> {
        let mut servers: Vec<Arc<Server>> = Vec::new();
        for (.., server) in &self.0 {
            if servers.iter().all(|known| known.name() != server.name()) {
                servers.push(Arc::clone(server));
            }
        }
        servers
    }
}
