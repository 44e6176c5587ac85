//! One attempt at the requests of a call: everything is sent before the first reply is read.
//!
//! All requests about locks are sent and their replies received here, those of the callers and of
//! the watchdog, with two exceptions: `reply.rs` sends the release that undoes a lost copy, and
//! reads no reply; `prepared.rs` sends a request whose reply is received here. [`Exchange`] does
//! the work on one connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::client::RedisClient;
use super::reply::Unanswered;
use super::state::{Enough, Failure, RequestState};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::script::Call;
use crate::transport::connection::Connection;
use crate::transport::exchange::Exchange;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// The least time to find or open one server while there are enough others, or to reply.
pub(super) const BRIEFLY: Duration = Duration::from_millis(100);

/// Servers that one attempt is redirected to. A cluster that has not settled where a slot is must
/// not be asked without a pause.
const REDIRECTIONS: u32 = 5;

/// Whose connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Caller,
    Watchdog,
}

/// One attempt at all requests that have no outcome yet.
pub(super) struct Attempt<'r, 'q> {
    pub(super) requests: &'r mut [RequestState<'q>],
    /// `None`: every reply counts, so each is waited for.
    pub(super) enough: Option<Enough>,
    pub(super) purpose: Purpose,
    pub(super) began: Moment,
    pub(super) until: Moment,
    /// The call of a further copy of the request at this place, if it is another call.
    next_call: &'r mut dyn FnMut(usize) -> Option<Call>,
}

impl<'r, 'q> Attempt<'r, 'q> {
    pub(super) fn new(
        requests: &'r mut [RequestState<'q>],
        enough: Option<Enough>,
        purpose: Purpose,
        until: Moment,
        next_call: &'r mut dyn FnMut(usize) -> Option<Call>,
    ) -> Self {
        Self {
            requests,
            enough,
            purpose,
            began: Moment::now(),
            until,
            next_call,
        }
    }

    /// Sends all requests that have no outcome, and receives their replies, until each has one, or
    /// enough have one and the others had their time, or the time is over. Returns false, and sends
    /// nothing, if the time is over already.
    pub(super) fn run(&mut self) -> bool {
        if self.began >= self.until && self.requests.iter().all(|r| r.under_way.is_none()) {
            return false;
        }
        let (mut groups, unknown) = self.groups();
        let mut open = self.under_way();
        if self.purpose == Purpose::Watchdog {
            // A look-up that gets no reply does not delay the renewals on known servers.
            self.send(std::mem::take(&mut groups), &mut open);
        }
        self.look_up(&unknown, &mut groups);
        self.send(groups, &mut open);
        self.send_again(&mut open);
        let mut taken = List::new();
        let mut settled = None;
        while !open.is_empty() {
            let deadline = self.deadline(&open, &mut settled);
            let now = Moment::now();
            let waited = open.iter().map(|exchange| exchange.reply_by.min(deadline));
            let wait = waited.min().unwrap_or(now);
            // A single connection is read at once, which waits for its replies. Of several, those
            // are read on which something has arrived.
            let (readable, wait_for_reply) = match open.len() {
                1 => (List::from_buf([true]), wait),
                _ => (Self::readable(&open, wait), Moment::ZERO),
            };
            for at in (0..open.len()).rev() {
                let exchange = &mut open[at];
                let received = match readable[at] {
                    true => self.receive(exchange, wait_for_reply),
                    false => Ok(()),
                };
                // A deadline counts only if it had passed before the wait: what arrived in time is
                // read, however late this thread gets to it.
                let is_late = exchange.reply_by.min(deadline) <= now;
                if received.is_ok() && !exchange.pending.is_empty() && !is_late {
                    continue;
                }
                let mut exchange = open.swap_remove(at);
                match received {
                    Err(error) => self.broke(exchange, &error),
                    Ok(()) if !exchange.pending.is_empty() => self.timed_out(exchange),
                    Ok(()) if !exchange.taken.is_empty() => taken.push(exchange),
                    Ok(()) if exchange.is_sound => exchange.slot.put(exchange.connection),
                    Ok(()) => {}
                }
            }
            self.send_again(&mut open);
        }
        taken.into_iter().for_each(|taken| self.replicate(taken));
        true
    }

    /// The requests that were sent before this attempt.
    fn under_way(&mut self) -> List<Exchange> {
        let mut open = List::new();
        for place in 0..self.requests.len() {
            if let Some(mut exchange) = self.requests[place].under_way.take() {
                exchange.reply_by = self.reply_by(place, exchange.sent_at);
                exchange.pending[0].place = place;
                self.requests[place].server = Some(Arc::clone(&exchange.server));
                open.push(*exchange);
            }
        }
        open
    }

    pub(super) fn client(&self, place: usize) -> &'q RedisClient {
        self.requests[place].request.client
    }

    /// How many good replies are needed.
    pub(super) fn needed(&self) -> usize {
        self.enough
            .map_or(self.requests.len(), |enough| enough.needed)
    }

    /// When late replies are not waited for any longer. Once it is settled whether enough replies
    /// are good, the others have as much time again, or as long as they usually take.
    fn deadline(&self, open: &[Exchange], settled: &mut Option<Moment>) -> Moment {
        if settled.is_none() && self.is_settled() {
            *settled = Some(Moment::now());
        }
        let Some(settled) = *settled else {
            return Moment::NEVER;
        };
        let graces = open.iter().filter_map(|exchange| {
            let unknown = self.client(exchange.awaited()?.place).command_timeout / 4;
            Some(exchange.server.health.grace(unknown))
        });
        let grace = graces.max().unwrap_or_default();
        settled.after(settled.since(self.began).max(grace))
    }

    /// Whether it is known by now if enough replies are good.
    fn is_settled(&self) -> bool {
        let Some(Enough { needed, is_good }) = self.enough else {
            return false;
        };
        let (mut good, mut bad) = (0, 0);
        for outcome in self.requests.iter().filter_map(|r| r.outcome.as_ref()) {
            match outcome {
                Ok((reply, _)) if is_good(reply) => good += 1,
                _ => bad += 1,
            }
        }
        good >= needed || bad + needed > self.requests.len()
    }

    /// Waits until a reply may be received, or the deadline has passed. Tells for each exchange
    /// whether that is so.
    fn readable(open: &[Exchange], deadline: Moment) -> List<bool> {
        let connections = open.iter().map(|exchange| &*exchange.connection);
        // If the system cannot wait, every connection is tried until the deadline.
        let readable = Connection::wait_readable(connections, deadline);
        readable.unwrap_or_else(|_| List::from_elem(true, open.len()))
    }

    /// Receives the replies of one server until `wait_until`. An error means that the connection
    /// broke.
    fn receive(&mut self, exchange: &mut Exchange, wait_until: Moment) -> RedisResult<()> {
        exchange.connection.set_deadline(wait_until);
        while let Some((place, reply)) = exchange.receive()? {
            self.replied(exchange, place, reply);
        }
        match exchange.pending.last() {
            Some(first) if !first.is_sent && !self.until.is_past() => {
                exchange.reply_by = self.reply_by(first.place, Moment::now());
                exchange.send(|place| self.requests[place].call())
            }
            _ => Ok(()),
        }
    }

    fn replied(&mut self, exchange: &mut Exchange, place: usize, reply: RedisResult<Value>) {
        let sent_at = exchange.sent_at;
        let replicas = self.client(place).min_replicas.is_some();
        let server = &exchange.server;
        let at = exchange.connection.used();
        server.replied(at, at.since(sent_at));
        let request = &mut self.requests[place];
        match reply {
            Ok(reply) => {
                if self.enough.is_none() && replicas && request.call().has_taken(&reply) {
                    exchange.taken.push(place);
                }
                request.lost_copies.reached(server);
                request.outcome = Some(Ok((reply, sent_at)));
            }
            Err(error) => self.refused(exchange, place, error),
        }
    }

    /// An error reply: the request is not executed, and not under way any more.
    fn refused(&mut self, exchange: &mut Exchange, place: usize, error: RedisError) {
        let action = RetryAction::on(&error);
        exchange.is_sound &= action.keeps_connection();
        if action == RetryAction::TooManyClients {
            // The server refused the connection, so it executes none of these requests.
            for pending in std::mem::take(&mut exchange.pending) {
                self.fail(pending.place, Failure::Redis(error.clone()));
            }
        }
        let server = &exchange.server;
        server.failed(&error, true);
        let request = self.requests[place].request;
        let redirect = match action {
            RetryAction::Redirect => {
                let topology = &request.client.topology;
                topology.redirect(request.lock, server, &error)
            }
            _ => None,
        };
        self.fail(place, Failure::Redis(error));
        let request = &mut self.requests[place];
        request.redirect = redirect;
        request.redirected_by = Some(Arc::clone(server));
    }

    /// Sends at once what was redirected, and once more what was sent on a connection that had been
    /// cut while it was idle. So a server that does not reply delays only its own requests.
    fn send_again(&mut self, open: &mut List<Exchange>) {
        let mut groups = List::new();
        for place in 0..self.requests.len() {
            if let Some(server) = self.server_of_next_copy(place, open) {
                self.requests[place].outcome = None;
                self.add(&mut groups, place, server);
            }
        }
        if !groups.is_empty() {
            self.send(groups, open);
        }
    }

    /// The server to which this request is sent again now, if it is.
    fn server_of_next_copy(&mut self, place: usize, open: &[Exchange]) -> Option<Arc<Server>> {
        let request = &mut self.requests[place];
        if !matches!(request.outcome, Some(Err(_))) || self.until.is_past() {
            return None;
        }
        // The watchdog repeats its requests itself, soon.
        let is_stale = std::mem::take(&mut request.is_stale) && self.purpose == Purpose::Caller;
        if is_stale && !request.is_resent && request.is_repeatable() {
            request.is_resent = true;
            request.replace_call(|| (self.next_call)(place));
            return request.server.clone();
        }
        let server = Arc::clone(&request.redirect.as_ref()?.server);
        // Its requests follow when the exchange that is under way is over.
        if open
            .iter()
            .any(|exchange| exchange.server.name() == server.name())
        {
            return None;
        }
        request.redirections += 1;
        if request.redirections == REDIRECTIONS {
            let cause = "too many MOVED or ASK redirects";
            self.fail(place, Failure::NoServer(cause.into()));
            return None;
        }
        Some(server)
    }

    /// No reply will arrive on a connection that broke.
    pub(super) fn broke(&mut self, exchange: Exchange, error: &RedisError) {
        // A connection that was cut while it was idle, or because of its name, says nothing of its
        // server.
        let is_stale =
            (exchange.is_reused || exchange.connection.awaits_name()) && !error.is_timeout();
        let server = &exchange.server;
        server.failed(error, exchange.connection.is_established());
        if !is_stale {
            server.unanswered(exchange.sent_at);
        }
        self.no_reply(exchange, error, is_stale);
    }

    /// The time for these replies is over.
    fn timed_out(&mut self, exchange: Exchange) {
        let error = RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        // A call with little time left says nothing of the server, nor does a server that has
        // replied to everything, but does not know a script.
        let is_fair = exchange.awaited().is_some_and(|first| {
            let timeout = self.client(first.place).command_timeout;
            exchange.reply_by.since(exchange.sent_at) >= BRIEFLY.min(timeout)
        });
        if is_fair {
            exchange.server.unanswered(exchange.sent_at);
            // A server that is late where others were faster may be as good as they are.
            if self.enough.is_none() {
                exchange.server.failed(&error, true);
            }
        }
        self.no_reply(exchange, &error, false);
    }

    /// Notes for each request without a reply that it may still be executed.
    fn no_reply(&mut self, exchange: Exchange, error: &RedisError, is_stale: bool) {
        // What follows a part of a request would be taken for the rest of it.
        let connection = (!exchange.is_torn).then(|| Unanswered::from(exchange.connection));
        for pending in exchange.pending {
            let request = &mut self.requests[pending.place];
            if pending.is_sent {
                let lost = &mut request.lost_copies;
                lost.lost(&exchange.server, connection.clone());
                request.is_stale = is_stale;
            }
            self.fail(pending.place, Failure::Redis(error.clone()));
        }
        // It is unknown whether the replicas have these.
        for place in exchange.taken {
            let request = &mut self.requests[place];
            request.lost_copies.lost(&exchange.server, None);
            self.fail(place, Failure::Redis(error.clone()));
        }
    }

    /// Waits until enough replicas have the locks that were taken on this connection.
    fn replicate(&mut self, mut exchange: Exchange) {
        let Some(&first) = exchange.taken.first() else {
            return;
        };
        match self
            .client(first)
            .replicate(&mut exchange.connection, self.until)
        {
            Ok(unreplicated) => {
                for &place in &exchange.taken {
                    self.requests[place].unreplicated = unreplicated;
                }
                if exchange.is_sound {
                    exchange.slot.put(exchange.connection);
                }
            }
            Err(error) => {
                exchange.server.failed(&error, true);
                self.no_reply(exchange, &error, false);
            }
        }
    }

    pub(super) fn fail(&mut self, place: usize, failure: Failure) {
        let request = &mut self.requests[place];
        request.redirect = None;
        request.outcome = Some(Err(failure));
    }
}
