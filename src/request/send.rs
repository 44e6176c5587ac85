//! Sends the requests of an attempt: room for the connections first, then everything at once.

use std::cmp::Ordering;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Attempt, BRIEFLY, Purpose};
use super::route::Group;
use super::state::Failure;
use crate::base::clock::Moment;
use crate::base::list::List;
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
    /// Sends each group, and adds it to the `open` exchanges: first where a connection is open, and
    /// last to servers that did not reply to the last request.
    pub(super) fn send(&mut self, groups: List<Group>, open: &mut List<Exchange>) {
        let mut unopened = List::new();
        for Room { group, mut slot } in self.rooms(groups, !open.is_empty()) {
            let repeatable = |&place: &usize| self.requests[place].call().is_repeatable();
            let idle = if group.places.iter().all(repeatable) {
                slot.take()
            } else {
                None
            };
            match idle {
                Some(idle) => self.send_group(group, slot, (idle, true), open),
                None => unopened.push(Room { group, slot }),
            }
        }
        unopened.sort_by_key(|room| room.group.server.health.is_unresponsive());
        let count = unopened.len();
        for (tried, Room { group, mut slot }) in unopened.into_iter().enumerate() {
            let at_hand = open.iter().map(|exchange| exchange.pending.len()).sum();
            let place = group.places[0];
            let longest = self.client(place).connect_timeout;
            let time = self.share(place, longest, count - tried, at_hand);
            match group.server.node.open(time) {
                Ok(new) => self.send_group(group, slot, (Box::new(new), false), open),
                Err(error) => {
                    group.server.failed(&error, false);
                    // Until the new connection was open, an open one stayed in the slot.
                    let returned = match self.enough {
                        None => slot.another(RETURN_TIMEOUT.min(self.until.left())),
                        Some(_) => None,
                    };
                    if let Some(returned) = returned {
                        self.send_group(group, slot, (returned, true), open);
                        continue;
                    }
                    // In less time even a healthy server may not be reached.
                    if !error.is_timeout() || time >= BRIEFLY {
                        group.server.unanswered(self.began);
                    }
                    for &place in &group.places {
                        self.requests[place].server = Some(Arc::clone(&group.server));
                        self.fail(place, Failure::Redis(error.clone()));
                    }
                }
            }
        }
    }

    fn send_group(
        &mut self,
        group: Group,
        mut slot: Slot,
        (connection, is_reused): (Box<Connection>, bool),
        open: &mut List<Exchange>,
    ) {
        let now = Moment::now();
        if now >= self.until {
            // It was not sent, so no copy is lost, and the server is not to blame.
            slot.put(connection);
            for place in group.places {
                let error = io::Error::from(io::ErrorKind::TimedOut);
                self.fail(place, Failure::Redis(error.into()));
            }
            return;
        }
        let reply_by = self.reply_by(group.places[0], now);
        let pending = group.places.iter().rev().map(|&place| {
            let request = &mut self.requests[place];
            request.server = Some(Arc::clone(&group.server));
            Pending {
                place,
                asking: request.is_asking(),
                by_source: request.by_source,
                is_sent: false,
            }
        });
        let pending = pending.collect();
        let connection = (connection, is_reused);
        let mut exchange = Exchange::new(group.server, slot, connection, now, reply_by, pending);
        match exchange.send(|place| self.requests[place].call()) {
            Ok(()) => open.push(exchange),
            Err(error) => self.broke(exchange, &error),
        }
    }

    /// When the reply to a request that is sent `now` is not waited for any longer.
    pub(super) fn reply_by(&self, place: usize, now: Moment) -> Moment {
        self.until
            .min(now.after(self.client(place).command_timeout))
    }

    /// Checks out room for a connection for each group. All threads do so in one order, before
    /// they send anything, so that two threads cannot each hold what the other waits for. With
    /// requests `under_way`, this thread holds room already, so it waits only briefly for more.
    fn rooms(&mut self, mut groups: List<Group>, under_way: bool) -> List<Room> {
        groups.sort_by(|one, other| self.order(one, other));
        let count = groups.len();
        let mut rooms: List<Room> = List::new();
        for (tried, group) in groups.into_iter().enumerate() {
            let pool = &group.server.pool;
            let slot = match self.purpose {
                Purpose::Watchdog => Ok(pool.watchdog_slot()),
                Purpose::Caller => pool.slot(|| {
                    if under_way {
                        return BRIEFLY.min(self.until.left());
                    }
                    let place = group.places[0];
                    let at_hand = rooms.iter().map(|room| room.group.places.len()).sum();
                    // At least one share is left for the replies if there is more to wait for.
                    let untried = count - tried + usize::from(count > 1);
                    let longest = self.client(place).pool_timeout;
                    self.share(place, longest, untried, at_hand)
                }),
            };
            match slot {
                Ok(slot) => rooms.push(Room { group, slot }),
                Err(_) => {
                    if self.enough.is_some() {
                        group.server.health.not_sent();
                    }
                    let places = group.places.into_iter();
                    places.for_each(|place| self.fail(place, Failure::NoSlot));
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
