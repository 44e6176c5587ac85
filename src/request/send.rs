//! Sends the requests of an attempt: room for the connections first, then everything at once.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Attempt, BRIEFLY, Purpose};
use super::route::Group;
use super::state::Failure;
use crate::base::clock::Moment;
use crate::transport::connection::Connection;
use crate::transport::exchange::{Exchange, Pending};
use crate::transport::pool::Slot;

/// How long a caller that cannot open a connection waits until another caller puts one back.
const RETURN_TIMEOUT: Duration = Duration::from_millis(100);

/// A group of requests, and room for the connection on which it is sent.
struct Room {
    group: Group,
    slot: Slot,
}

impl Attempt<'_, '_> {
    /// Sends each group: first where a connection is open, and last to servers that did not reply
    /// to the last request. `under_way` requests are waiting for their replies already.
    pub(super) fn send(&mut self, groups: Vec<Group>, under_way: usize) -> Vec<Exchange> {
        let mut sent = Vec::with_capacity(groups.len());
        let mut unopened = Vec::new();
        for Room { group, mut slot } in self.rooms(groups, under_way) {
            let repeatable = |&place: &usize| self.requests[place].call().is_repeatable();
            let idle = if group.places.iter().all(repeatable) {
                slot.take()
            } else {
                None
            };
            match idle {
                Some(idle) => sent.extend(self.send_group(&group, slot, (idle, true))),
                None => unopened.push(Room { group, slot }),
            }
        }
        unopened.sort_by_key(|room| room.group.server.health.is_unresponsive());
        let count = unopened.len();
        for (tried, Room { group, mut slot }) in unopened.into_iter().enumerate() {
            let at_hand = sent
                .iter()
                .map(|exchange: &Exchange| exchange.pending.len());
            let at_hand = under_way + at_hand.sum::<usize>();
            let place = group.places[0];
            let longest = self.client(place).connect_timeout;
            let time = self.share(place, longest, count - tried, at_hand);
            match group.server.node.open(time) {
                Ok(new) => sent.extend(self.send_group(&group, slot, (new, false))),
                Err(error) => {
                    group.server.failed(&error, false);
                    // Until the new connection was open, an open one stayed in the slot.
                    let returned = match self.enough {
                        None => slot.another(RETURN_TIMEOUT.min(self.until.left())),
                        Some(_) => None,
                    };
                    if let Some(returned) = returned {
                        sent.extend(self.send_group(&group, slot, (returned, true)));
                        continue;
                    }
                    // In less time even a healthy server may not be reached.
                    if !error.is_timeout() || time >= BRIEFLY {
                        group.server.health.unanswered();
                    }
                    for &place in &group.places {
                        self.requests[place].server = Some(Arc::clone(&group.server));
                        self.fail(place, Failure::Redis(error.clone()));
                    }
                }
            }
        }
        sent
    }

    fn send_group(
        &mut self,
        group: &Group,
        mut slot: Slot,
        (connection, is_reused): (Connection, bool),
    ) -> Option<Exchange> {
        if self.until.is_past() {
            // It was not sent, so no copy is lost, and the server is not to blame.
            slot.put(connection);
            for &place in &group.places {
                let error = io::Error::from(io::ErrorKind::TimedOut);
                self.fail(place, Failure::Redis(error.into()));
            }
            return None;
        }
        let mut pending = VecDeque::with_capacity(group.places.len());
        for &place in &group.places {
            let request = &mut self.requests[place];
            request.server = Some(Arc::clone(&group.server));
            pending.push_back(Pending::new(place, request.is_asking(), request.by_source));
        }
        let reply_by = self.reply_by(group.places[0]);
        let call = |place: usize| self.requests[place].call();
        let server = Arc::clone(&group.server);
        let (exchange, sent) = Exchange::send(
            server,
            slot,
            (connection, is_reused),
            pending,
            call,
            reply_by,
        );
        match sent {
            Ok(()) => Some(exchange),
            Err(error) => {
                self.broke(exchange, &error);
                None
            }
        }
    }

    /// When the reply to a request that is sent now is not waited for any longer.
    pub(super) fn reply_by(&self, place: usize) -> Moment {
        let timeout = self.client(place).command_timeout;
        self.until.min(Moment::now().after(timeout))
    }

    /// Checks out room for a connection for each group. All threads do so in one order, before
    /// they send anything, so that two threads cannot each hold what the other waits for. With
    /// requests `under_way`, this thread holds room already, so it waits only briefly for more.
    fn rooms(&mut self, mut groups: Vec<Group>, under_way: usize) -> Vec<Room> {
        groups.sort_by(|one, other| self.order(one, other));
        let count = groups.len();
        let mut rooms: Vec<Room> = Vec::with_capacity(count);
        for (tried, group) in groups.into_iter().enumerate() {
            let slot = match self.purpose {
                Purpose::Watchdog => Ok(group.server.pool.watchdog_slot()),
                Purpose::Caller if under_way > 0 => {
                    group.server.pool.slot(BRIEFLY.min(self.until.left()))
                }
                Purpose::Caller => {
                    let place = group.places[0];
                    let at_hand = rooms.iter().map(|room| room.group.places.len()).sum();
                    // At least one share is left for the replies if there is more to wait for.
                    let untried = count - tried + usize::from(count > 1);
                    let longest = self.client(place).pool_timeout;
                    let time = self.share(place, longest, untried, at_hand);
                    group.server.pool.slot(time)
                }
            };
            match slot {
                Ok(slot) => rooms.push(Room { group, slot }),
                Err(_) => {
                    if self.enough.is_some() {
                        group.server.health.unanswered();
                    }
                    let places = group.places.iter();
                    places.for_each(|&place| self.fail(place, Failure::NoSlot));
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

    /// The time for the first of `untried` servers that are not ready, at most `longest`. It is
    /// shorter if the `at_hand` requests whose servers are ready are enough.
    pub(super) fn share(
        &self,
        place: usize,
        longest: Duration,
        untried: usize,
        at_hand: usize,
    ) -> Duration {
        let client = self.client(place);
        let untried = u32::try_from(untried).unwrap_or(u32::MAX);
        let time = longest.min(self.until.left() / untried);
        if at_hand < self.needed() || self.enough.is_none() {
            return time;
        }
        let unknown = client.command_timeout / 4;
        let lock = self.requests[place].request.lock;
        time.min(
            client
                .health(lock, |health| health.grace(unknown))
                .max(BRIEFLY),
        )
    }
}
