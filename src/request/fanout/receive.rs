//! The replies to what was sent.

use std::io;
use std::sync::Arc;

use redis::{RedisError, RedisResult, Value};

use super::Fanout;
use crate::base::clock::Moment;
use crate::request::attempt::{Failure, Replied};
use crate::request::batch::Enough;
use crate::request::reply::Unanswered;
use crate::transport::exchange::{Exchange, FIRST_LOOK, LONGEST_LOOK, Received};
use crate::transport::retry_action::RetryAction;

impl Fanout<'_, '_> {
    /// Reads replies until all are there, or enough are there and the others had their time, or the
    /// time is over. Returns the exchanges that took locks which replicas must confirm.
    pub(super) fn receive_all<'s>(&mut self, open: &mut Vec<Exchange<'s>>) -> Vec<Exchange<'s>> {
        let mut look = FIRST_LOOK;
        let mut settled = None;
        let mut taken = Vec::new();
        let end = self.until.min(Moment::now().after(self.command_timeout));
        while !open.is_empty() {
            for mut exchange in std::mem::take(open) {
                exchange.connection.set_time_limit(look.min(end.left()));
                match self.receive(&mut exchange) {
                    Some(error) => self.broke(exchange, &error),
                    None if !exchange.is_done() => open.push(exchange),
                    None if !exchange.taken.is_empty() => taken.push(exchange),
                    None if exchange.is_sound => exchange.slot.put(exchange.connection),
                    None => {}
                }
            }
            let mut until = end;
            if settled.is_none() && self.is_settled() {
                settled = Some(Moment::now());
            }
            if let Some(settled) = settled {
                let graces = open.iter().map(|exchange| {
                    let client = self.client(exchange.place);
                    client.suspicion.grace(client.command_timeout / 4)
                });
                let grace = graces.max().unwrap_or_default();
                until = until.min(settled.after(settled.since(self.began).max(grace)));
            }
            if until.is_past() {
                break;
            }
            look = (look * 2).min(LONGEST_LOOK);
        }
        taken
    }

    /// Reads the replies of one server that are there; the error is what broke the connection.
    fn receive(&mut self, exchange: &mut Exchange<'_>) -> Option<RedisError> {
        // No server of a majority takes the time of the others.
        let time = match self.enough {
            Some(_) => LONGEST_LOOK,
            None => self.command_timeout.min(self.until.left()),
        };
        while !exchange.is_done() {
            match exchange.receive(|place| self.requests[place].call(), time) {
                Received::Reply(place, reply) => self.replied(exchange, place, reply),
                Received::Nothing => break,
                Received::Broken(error) => return Some(error),
            }
        }
        None
    }

    /// Whether it is known by now if enough answers are good.
    fn is_settled(&self) -> bool {
        let Some(Enough { needed, is_good }) = self.enough else {
            return false;
        };
        let (mut good, mut bad) = (0, 0);
        for outcome in self.requests.iter().filter_map(|r| r.outcome.as_ref()) {
            match outcome {
                Ok(replied) if is_good(&replied.reply) => good += 1,
                _ => bad += 1,
            }
        }
        good >= needed || bad + needed > self.requests.len()
    }

    fn replied(&mut self, exchange: &mut Exchange<'_>, place: usize, reply: RedisResult<Value>) {
        let (server, asked) = (exchange.server, exchange.asked);
        let client = self.client(place);
        if self.enough.is_some() {
            let took = Moment::now().since(asked);
            client.suspicion.answered(took);
        } else {
            server.answered();
        }
        let request = &mut self.requests[place];
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return self.refused(exchange, place, error),
        };
        let replicas = self.enough.is_none() && client.min_replicas.is_some();
        if replicas && request.call().has_taken(&reply) {
            exchange.taken.push(place);
        }
        request.lost_copies.goes_to(server);
        request.outcome = Some(Ok(Replied {
            reply,
            asked,
            unreplicated: None,
        }));
    }

    /// An error reply: the request is not done, and not under way any more.
    fn refused(&mut self, exchange: &mut Exchange<'_>, place: usize, error: RedisError) {
        let server = exchange.server;
        let action = RetryAction::on(&error);
        server.failed(&error, true);
        exchange.is_sound &= action.keeps_connection();
        if action == RetryAction::Crowded {
            // The server refused the connection, so it executes none of these requests.
            for pending in exchange.pending.drain(..) {
                self.fail(pending.place, Failure::Redis(error.clone()));
            }
        }
        let request = &mut self.requests[place];
        let redirect = match action {
            RetryAction::Redirect => {
                let topology = &request.question.client.topology;
                topology.redirect(request.question.lock, server, &error)
            }
            _ => None,
        };
        self.fail(place, Failure::Redis(error));
        let request = &mut self.requests[place];
        request.redirect = redirect;
        request.sent_on_by = Some(Arc::clone(server));
    }

    /// No reply comes any more on a connection that broke.
    pub(super) fn broke(&mut self, exchange: Exchange<'_>, error: &RedisError) {
        exchange
            .server
            .failed(error, exchange.connection.is_established());
        self.unanswered_exchange(exchange, error);
    }

    /// Fails all requests that have no reply at the deadline.
    pub(super) fn give_up(&mut self, open: Vec<Exchange<'_>>) {
        let error = RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        for exchange in open {
            self.unanswered(exchange.place);
            if self.enough.is_none() {
                exchange.server.failed(&error, true);
            }
            self.unanswered_exchange(exchange, &error);
        }
    }

    /// Notes for each request without a reply that it may still be executed.
    fn unanswered_exchange(&mut self, exchange: Exchange<'_>, error: &RedisError) {
        let can_follow_up = !exchange.is_torn && !exchange.has_begun_its_only_reply();
        let Exchange {
            server,
            connection,
            pending,
            taken,
            ..
        } = exchange;
        let connection = can_follow_up.then(|| Unanswered::from(connection));
        for pending in pending {
            let request = &mut self.requests[pending.place];
            request.lost_copies.lost(server, connection.clone());
            self.fail(pending.place, Failure::Redis(error.clone()));
        }
        // It is unknown whether the replicas have these.
        for place in taken {
            self.requests[place].lost_copies.lost(server, None);
            self.fail(place, Failure::Redis(error.clone()));
        }
    }

    /// Waits until enough replicas have the locks that were taken on this connection.
    pub(super) fn replicate(&mut self, mut exchange: Exchange<'_>) {
        let client = self.client(exchange.place);
        let Some(wanted) = client.min_replicas else {
            return;
        };
        match client.replicate(&mut exchange.connection, wanted, self.until) {
            Ok(unreplicated) => {
                for &place in &exchange.taken {
                    if let Some(Ok(replied)) = &mut self.requests[place].outcome {
                        replied.unreplicated = unreplicated;
                    }
                }
                if exchange.is_sound {
                    exchange.slot.put(exchange.connection);
                }
            }
            Err(error) => self.broke(exchange, &error),
        }
    }
}
