//! One attempt at several requests: everything is sent before the first reply is read.

mod receive;
mod route;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::RedisClient;
use super::attempt::Failure;
use super::batch::{Enough, PendingRequest};
use crate::base::clock::Moment;
use crate::transport::connection::Connection;
use crate::transport::exchange::{Exchange, Pending};
use crate::transport::pool::Slot;
use crate::transport::server::Server;

/// What finding or opening one server may take while there are enough others, at the least.
const BRIEFLY: Duration = Duration::from_millis(100);

/// One attempt at all requests that have no outcome yet.
pub(super) struct Fanout<'r, 'q> {
    requests: &'r mut [PendingRequest<'q>],
    /// `None`: every reply counts, so each is waited for.
    enough: Option<Enough>,
    /// How long a reply may take: as long as the slowest of the clients allows.
    command_timeout: Duration,
    began: Moment,
    until: Moment,
}

/// Requests of one client to one server.
struct Group {
    places: Vec<usize>,
    server: Arc<Server>,
}

/// Room for the connection on which a group goes out.
struct Room<'s> {
    group: &'s Group,
    slot: Slot<'s>,
}

impl<'r, 'q> Fanout<'r, 'q> {
    pub(super) fn new(
        requests: &'r mut [PendingRequest<'q>],
        enough: Option<Enough>,
        reply_by: Moment,
    ) -> Self {
        let clients = requests.iter().map(|request| request.question.client);
        let command_timeout = clients.map(|client| client.command_timeout).max();
        let command_timeout = command_timeout.unwrap_or_default();
        let began = Moment::now();
        // What opening one connection takes is time that a majority does not wait for.
        let until = match enough {
            Some(_) => reply_by.min(began.after(command_timeout)),
            None => reply_by,
        };
        Self {
            requests,
            enough,
            command_timeout,
            began,
            until,
        }
    }

    pub(super) fn run(&mut self) {
        let groups = self.groups();
        let rooms = self.rooms(&groups);
        let mut open = self.send_all(rooms);
        let taken = self.receive_all(&mut open);
        self.give_up(open);
        taken.into_iter().for_each(|taken| self.replicate(taken));
    }

    fn client(&self, place: usize) -> &'q RedisClient {
        self.requests[place].question.client
    }

    /// How many answers are needed.
    fn needed(&self) -> usize {
        self.enough
            .map_or(self.requests.len(), |enough| enough.needed)
    }

    /// Sends to each server: first where a connection is open, and last where the last request got
    /// no reply.
    fn send_all<'s>(&mut self, rooms: Vec<Room<'s>>) -> Vec<Exchange<'s>> {
        let mut sent = Vec::with_capacity(rooms.len());
        let mut unopened = Vec::new();
        for Room { group, mut slot } in rooms {
            match slot.take() {
                Some(connection) => sent.extend(self.send(group, slot, connection)),
                None => unopened.push(Room { group, slot }),
            }
        }
        unopened.sort_by_key(|room| self.client(room.group.places[0]).is_suspect());
        let count = unopened.len();
        for (tried, Room { group, slot }) in unopened.into_iter().enumerate() {
            let place = group.places[0];
            let at_hand = sent.iter().map(|exchange| exchange.pending.len()).sum();
            let time = self.share(place, count - tried, at_hand);
            match group.server.node.open(time) {
                Ok(connection) => sent.extend(self.send(group, slot, connection)),
                Err(error) => {
                    // In less time even a good one may not be opened.
                    if !error.is_timeout() || time >= BRIEFLY {
                        self.unanswered(place);
                    }
                    group.server.failed(&error, false);
                    for &place in &group.places {
                        self.fail(place, Failure::Redis(error.clone()));
                    }
                }
            }
        }
        sent
    }

    fn send<'s>(
        &mut self,
        group: &'s Group,
        slot: Slot<'s>,
        mut connection: Connection,
    ) -> Option<Exchange<'s>> {
        let mut packed = Vec::new();
        let mut pending = VecDeque::with_capacity(group.places.len());
        for &place in &group.places {
            let request = &self.requests[place];
            let one = Pending::new(place, request.is_asking());
            packed.extend(one.packed(request.call(), &connection));
            pending.push_back(one);
        }
        let asked = Moment::now();
        connection.set_time_limit(self.command_timeout.min(self.until.left()));
        let sent = connection.send(&packed);
        let mut exchange = Exchange::new(
            group.places[0],
            &group.server,
            slot,
            connection,
            asked,
            pending,
        );
        if let Err(error) = sent {
            // What follows half a request would be taken for the rest of it.
            exchange.is_torn = true;
            self.broke(exchange, &error);
            return None;
        }
        Some(exchange)
    }

    /// Notes that the client's server did not reply, where others can take its place.
    fn unanswered(&self, place: usize) {
        if self.enough.is_some() {
            self.client(place).suspicion.unanswered();
        }
    }

    fn fail(&mut self, place: usize, failure: Failure) {
        let request = &mut self.requests[place];
        request.redirect = None;
        request.outcome = Some(Err(failure));
    }
}
