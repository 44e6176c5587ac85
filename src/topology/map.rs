//! The servers that have locks, by slot. Pure: no clock, no I/O, no lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::key::SLOTS;
use crate::transport::server::Server;

/// The first slot of each range, with its server. The range ends before the next one. Neighbours
/// have different servers.
#[derive(Debug, Default)]
pub(super) struct Map(BTreeMap<u16, Option<Arc<Server>>>);

impl Map {
    /// A map in which this server has all slots.
    pub(super) fn of_one(server: Arc<Server>) -> Self {
        let mut map = Self::default();
        map.assign(0, SLOTS - 1, server);
        map
    }

    /// The server has the slots from the first to the last from now on.
    pub(super) fn assign(&mut self, first: u16, last: u16, server: Arc<Server>) {
        let next = self.server(last + 1).cloned();
        self.0.retain(|slot, _| !(first..=last).contains(slot));
        self.0.insert(first, Some(server));
        self.0.entry(last + 1).or_insert(next);
        let mut before = None;
        self.0.retain(|_, server| {
            let server = server.as_ref().map(Arc::as_ptr);
            before.replace(server) != Some(server)
        });
    }

    /// The server that has the slot.
    pub(super) fn server(&self, slot: u16) -> Option<&Arc<Server>> {
        self.0.range(..=slot).next_back()?.1.as_ref()
    }

    /// The server with this name.
    pub(super) fn named(&self, name: &str) -> Option<&Arc<Server>> {
        let mut servers = self.0.values().flatten();
        servers.find(|server| &**server.name() == name)
    }

    /// All servers, each of them once.
    pub(super) fn servers(&self) -> Vec<Arc<Server>> {
        let mut servers: Vec<Arc<Server>> = Vec::new();
        for server in self.0.values().flatten() {
            if servers.iter().all(|known| known.name() != server.name()) {
                servers.push(Arc::clone(server));
            }
        }
        servers
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redis::ConnectionAddr;

    use super::*;
    use crate::transport::node::{Limits, Login};

    #[test]
    fn slots_that_move_one_by_one_leave_few_ranges() {
        let limits = Limits::within(Duration::ZERO);
        let login = Login::plain(limits);
        let server = |port| Server::new(ConnectionAddr::Tcp("host".into(), port), &login);
        let (one, two) = (server(1), server(2));
        let mut map = Map::default();
        assert!(map.server(0).is_none());
        map.assign(0, 99, Arc::clone(&one));
        map.assign(200, SLOTS - 1, Arc::clone(&one));
        map.assign(SLOTS - 1, SLOTS - 1, Arc::clone(&two));
        for slot in (10..=50).rev().chain(51..=60) {
            map.assign(slot, slot, Arc::clone(&two));
        }
        let name = |slot| map.server(slot).map(|server| server.name().to_string());
        let (first, second) = (Some("host:1".to_owned()), Some("host:2".to_owned()));
        for (slot, expected) in [
            (0, &first),
            (9, &first),
            (10, &second),
            (60, &second),
            (61, &first),
            (99, &first),
            (100, &None),
            (199, &None),
            (SLOTS - 2, &first),
            (SLOTS - 1, &second),
        ] {
            assert_eq!(name(slot), *expected, "{slot}");
        }
        assert!(map.0.len() < 9 && map.servers().len() == 2);
        map.assign(0, SLOTS - 1, one);
        assert!(map.servers().len() == 1 && map.named("host:2").is_none());
    }
}
