//! Which server each request goes to, and room for a connection there.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::{BRIEFLY, Fanout, Group, Room};
use crate::request::RedisClient;
use crate::request::attempt::Failure;
use crate::request::batch::Request;
use crate::transport::server::Server;

impl<'q> Fanout<'_, 'q> {
    /// Groups the requests by server. A request that cannot be sent gets its outcome here.
    pub(super) fn groups(&mut self) -> Vec<Group> {
        let left_out = self.left_out();
        let mut groups = Vec::new();
        let mut unknown = Vec::new();
        for place in 0..self.requests.len() {
            let request = &self.requests[place];
            let Request { client, lock, .. } = request.question;
            if !request.is_open() {
                continue;
            }
            if left_out.get(place) == Some(&true) {
                let cause = "it did not answer lately, and is left out for a while";
                self.fail(place, Failure::NoServer(cause.into()));
                continue;
            }
            if let Err(error) = client.topology.check(lock) {
                self.fail(place, Failure::Final(error));
                continue;
            }
            let server = match &request.redirect {
                Some(to) => Some(Arc::clone(&to.server)),
                None => client.topology.known(lock),
            };
            match server {
                Some(server) => self.add(&mut groups, place, server),
                None => unknown.push(place),
            }
        }
        self.look_for(&unknown, &mut groups);
        groups
    }

    /// Which requests are not sent, because their server did not reply lately and enough others are
    /// left.
    fn left_out(&self) -> Vec<bool> {
        let Some(enough) = self.enough else {
            return Vec::new();
        };
        let requests = self.requests.iter();
        let left_out: Vec<bool> = requests
            .map(|request| request.question.client.suspicion.leaves_out())
            .collect();
        let can_spare = self.requests.len().saturating_sub(enough.needed);
        if left_out.iter().filter(|&&out| out).count() <= can_spare {
            left_out
        } else {
            Vec::new()
        }
    }

    fn add(&self, groups: &mut Vec<Group>, place: usize, server: Arc<Server>) {
        let client = self.client(place);
        let group = groups.iter_mut().find(|group| {
            group.server.name() == server.name()
                && std::ptr::eq(self.client(group.places[0]), client)
        });
        match group {
            Some(group) => group.places.push(place),
            None => groups.push(Group {
                places: vec![place],
                server,
            }),
        }
    }

    /// Looks up unknown servers, once for all locks of a client, even if that fails.
    fn look_for(&mut self, unknown: &[usize], groups: &mut Vec<Group>) {
        let mut clients: Vec<&'q RedisClient> = Vec::new();
        for client in unknown.iter().map(|&place| self.client(place)) {
            if clients.iter().all(|known| !std::ptr::eq(*known, client)) {
                clients.push(client);
            }
        }
        for (tried, client) in clients.iter().enumerate() {
            let mut failed: Option<String> = None;
            for &place in unknown {
                if !std::ptr::eq(self.client(place), *client) {
                    continue;
                }
                if let Some(cause) = &failed {
                    let cause = cause.clone().into();
                    self.fail(place, Failure::NoServer(cause));
                    continue;
                }
                let lock = self.requests[place].question.lock;
                let at_hand = groups.iter().map(|group| group.places.len()).sum();
                let time = self.share(place, clients.len() - tried, at_hand);
                match client.topology.server(lock, time) {
                    Ok(server) => self.add(groups, place, server),
                    Err(route_error) => {
                        failed = Some(route_error.to_string());
                        let failure = Failure::route_error(lock, route_error);
                        if matches!(failure, Failure::NoServer(_)) {
                            self.unanswered(place);
                        }
                        self.fail(place, failure);
                    }
                }
            }
        }
    }

    /// The time for the first of `untried` servers that are not ready. It is shorter if the
    /// `at_hand` requests whose servers are ready are enough.
    pub(super) fn share(&self, place: usize, untried: usize, at_hand: usize) -> Duration {
        let client = self.client(place);
        let untried = u32::try_from(untried).unwrap_or(u32::MAX);
        let time = client.connect_timeout.min(self.until.left() / untried);
        if at_hand < self.needed() {
            return time;
        }
        let unknown = client.command_timeout / 4;
        time.min(client.suspicion.grace(unknown).max(BRIEFLY))
    }

    /// Checks out room for a connection for each group. All threads do so in one order, before
    /// anything is sent, so that two threads cannot each hold what the other waits for.
    pub(super) fn rooms<'s>(&mut self, groups: &'s [Group]) -> Vec<Room<'s>> {
        let mut order: Vec<&Group> = groups.iter().collect();
        order.sort_by(|one, other| self.order(one, other));
        let mut rooms: Vec<Room<'s>> = Vec::with_capacity(order.len());
        for (tried, group) in order.into_iter().enumerate() {
            let place = group.places[0];
            let at_hand = rooms.iter().map(|room| room.group.places.len()).sum();
            // At least one share more than there are rooms to wait for is left for the replies.
            let time = self.share(place, groups.len() - tried + 1, at_hand);
            let time = self.client(place).pool_timeout.min(time);
            match group.server.pool.slot(time) {
                Ok(slot) => rooms.push(Room { group, slot }),
                Err(_) => {
                    self.unanswered(place);
                    group
                        .places
                        .iter()
                        .for_each(|&place| self.fail(place, Failure::NoSlot));
                }
            }
        }
        rooms
    }

    /// By server. Several clients of one server have a pool each.
    fn order(&self, one: &Group, other: &Group) -> Ordering {
        let client = |group: &Group| std::ptr::from_ref(self.client(group.places[0]));
        let names = one.server.name().cmp(other.server.name());
        names.then_with(|| client(one).cmp(&client(other)))
    }
}
