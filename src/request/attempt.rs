//! One attempt at the requests of a call: everything is sent before the first reply is read.
//!
//! All requests about locks are sent and their replies received here, with four exceptions:
//! `batch.rs` sends a single request on an open link, `prepared.rs` one for a waiting thread,
//! `confirm.rs` one on a connection of its own, and `reply.rs` the release that undoes a lost copy.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

use super::client::RedisClient;
use super::exchange::{Exchange, add};
use super::state::{Failure, Request, RequestState};
use crate::base::{List, Moment};
use crate::script::Call;
use crate::topology::Redirect;
use crate::transport::link::{Outcome, SentCopy, wait_for_any};
use crate::transport::links::Purpose;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// The least time to find or open one server while there are enough others, or to reply.
pub(super) const BRIEFLY: Duration = Duration::from_millis(100);

/// Servers that one attempt is redirected to. A cluster that has not settled where a slot is must
/// not be asked without a pause.
const REDIRECTIONS: u32 = 5;

/// One attempt at all requests that have no outcome yet.
pub(super) struct Attempt<'r, 'q> {
    pub(super) requests: &'r mut [RequestState<'q>],
    pub(super) purpose: Purpose,
    pub(super) began: Moment,
    pub(super) until: Moment,
    /// What was sent, and has not ended.
    pub(super) open: List<Exchange>,
    /// Set if this many good replies are enough.
    pub(super) majority: Option<usize>,
    /// Replies that are still missing then are not waited for any longer: others are enough.
    pub(super) late_after: Moment,
    /// The call of a further copy of the request at this index, if it is another call.
    next_call: &'r mut dyn FnMut(usize) -> Option<Call>,
}

impl<'r, 'q> Attempt<'r, 'q> {
    pub(super) fn new(
        requests: &'r mut [RequestState<'q>],
        purpose: Purpose,
        until: Moment,
        next_call: &'r mut dyn FnMut(usize) -> Option<Call>,
    ) -> Self {
        Self {
            requests,
            purpose,
            began: Moment::now(),
            until,
            open: List::new(),
            majority: None,
            late_after: Moment::NEVER,
            next_call,
        }
    }

    /// [Begins](Self::begin) the attempt, and receives the replies until each request has one, or
    /// the time is over. Returns false, and sends nothing, if the time is over already.
    pub(super) fn run(&mut self, open: List<Exchange>) -> bool {
        let has_begun = self.begin(open);
        while !self.open.is_empty() {
            self.receive();
        }
        has_begun
    }

    /// Sends all requests that have no outcome, except those that are `open`. Returns false, and
    /// sends nothing, if the time is over already.
    pub(super) fn begin(&mut self, open: List<Exchange>) -> bool {
        if self.began >= self.until && open.is_empty() {
            return false;
        }
        self.open = open;
        let (mut groups, unknown) = self.groups();
        if self.purpose == Purpose::Watchdog {
            // A look-up that gets no reply does not delay the renewals on known servers.
            self.send(std::mem::take(&mut groups));
        }
        self.look_up(unknown, &mut groups);
        self.send(groups);
        self.send_again();
        true
    }

    /// Waits for replies. Evaluates the exchanges that have ended.
    pub(super) fn receive(&mut self) {
        // A deadline counts only if it had passed before the wait: what arrived in time is read,
        // however late this thread gets to it.
        let now = Moment::now();
        self.wait();
        let is_single = self.open.len() == 1;
        for at in (0..self.open.len()).rev() {
            let exchange = &self.open[at];
            if exchange.sent.pending.is_over() || is_single || self.ends(exchange) <= now {
                let exchange = self.open.swap_remove(at);
                self.finish(&exchange);
            }
        }
        self.send_again();
    }

    /// Waits for a reply, at most until each exchange [ends](Self::ends).
    fn wait(&self) {
        if let [one] = &*self.open {
            let timeout = self.client(one.indices[0]).command_timeout;
            one.sent.wait(self.late_after.min(self.until), timeout);
            return;
        }
        let ends = self.open.iter().map(|exchange| self.ends(exchange));
        let until = ends.min().unwrap_or(Moment::ZERO);
        let sent = self.open.iter().map(|exchange| &exchange.sent);
        if wait_for_any(sent, until).is_err() {
            // The system cannot wait for several sockets.
            self.open[0].sent.wait(until, Duration::MAX);
        }
    }

    /// When the replies of one of several exchanges are not waited for any longer: at the end of
    /// the attempt, or after a command timeout in which nothing arrives. A server that replies to
    /// other requests first is given its time.
    fn ends(&self, exchange: &Exchange) -> Moment {
        let timeout = self.client(exchange.indices[0]).command_timeout;
        let unanswered = exchange.sent.link.unanswered_since().after(timeout);
        unanswered.min(self.late_after).min(self.until)
    }

    pub(super) fn client(&self, index: usize) -> &'q RedisClient {
        self.requests[index].request.client
    }

    /// Evaluates what has come of an exchange.
    pub(super) fn finish(&mut self, exchange: &Exchange) {
        let outcomes = exchange.sent.pending.outcomes();
        let mut failure: Option<RedisError> = None;
        for (nth, outcome) in outcomes.into_iter().enumerate() {
            let index = exchange.indices[nth];
            match outcome {
                Some(Outcome::Replied(Ok(reply), at)) => {
                    exchange.replied(at);
                    let request = &mut self.requests[index];
                    request.lost_copies.reached(&exchange.server);
                    request.outcome = Some(Ok((reply, exchange.sent.sent_at)));
                }
                Some(Outcome::Replied(Err(error), at)) if RetryAction::is_refusal(&error) => {
                    exchange.replied(at);
                    self.refused(exchange, index, error);
                }
                // A proxy could not get the reply of the server.
                Some(Outcome::Replied(Err(error), _)) => {
                    exchange.server.unanswered(exchange.sent.sent_at);
                    self.lost(exchange, index, Some(exchange.sent.copy(nth)), error);
                }
                lost => {
                    let copy = lost.is_none().then(|| exchange.sent.copy(nth));
                    let error = failure.get_or_insert_with(|| match lost {
                        Some(Outcome::Broken(error)) => exchange.broke(error),
                        _ => self.timed_out(exchange),
                    });
                    let error = error.clone();
                    self.lost(exchange, index, copy, error);
                }
            }
        }
    }

    /// An error reply: the request is not executed, and not under way any more.
    fn refused(&mut self, exchange: &Exchange, index: usize, error: RedisError) {
        let action = RetryAction::on(&error);
        if !action.keeps_connection() {
            exchange.sent.link.retire();
        }
        let server = &exchange.server;
        server.failed(&error, true, exchange.sent.sent_at);
        let state = &mut self.requests[index];
        let sends_source = action == RetryAction::SendSource && !state.by_source;
        let redirect = match action {
            RetryAction::Redirect => {
                state.redirected_by = Some(Arc::clone(server));
                let Request { client, lock, .. } = state.request;
                client.topology.redirect(lock, server, &error)
            }
            _ => sends_source.then(|| Redirect {
                server: Arc::clone(server),
                asking: state.is_asking(),
            }),
        };
        state.by_source |= sends_source;
        // That the server needs the source is not the error of the call, if there is no time left.
        let error = match sends_source {
            true => io::Error::from(io::ErrorKind::TimedOut).into(),
            false => error,
        };
        self.fail(index, Failure::Redis(error));
        self.requests[index].redirect = redirect;
    }

    /// The time for the replies of an exchange is over.
    fn timed_out(&self, exchange: &Exchange) -> RedisError {
        let error = RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        let unanswered = Moment::now().since(exchange.sent.link.unanswered_since());
        let timeout = self.client(exchange.indices[0]).command_timeout;
        // A call with little time left says nothing of the server, nor does a server that replies
        // to other requests first, or whose reply no thread has read yet.
        let is_late = unanswered >= BRIEFLY.min(timeout);
        if is_late && !exchange.sent.link.has_arrived() {
            exchange.server.unanswered(exchange.sent.sent_at);
            // A server that is late where others were faster may be as good as they are.
            if self.majority.is_none() {
                let since = exchange.sent.sent_at;
                exchange.server.failed(&error, true, since);
            }
        }
        error
    }

    /// Notes a request without a reply, which may still be executed. The `copy` is on a link that
    /// is in use.
    fn lost(
        &mut self,
        exchange: &Exchange,
        index: usize,
        copy: Option<SentCopy>,
        error: RedisError,
    ) {
        let request = &mut self.requests[index];
        let call = request.call().clone();
        let is_broken = copy.is_none() && !error.is_timeout();
        let copy = copy.map(|copy| (copy, &call));
        request.lost_copies.lost(&exchange.server, copy);
        let is_stale = is_broken && exchange.sent.link.is_established();
        self.fail(index, Failure::Redis(error));
        // The watchdog repeats its requests itself, soon.
        let request = &mut self.requests[index];
        let is_first = !request.is_resent && request.is_repeatable();
        if is_stale && is_first && self.purpose == Purpose::Caller {
            request.is_resent = true;
            let server = Arc::clone(&exchange.server);
            let asking = false;
            request.redirect = Some(Redirect { server, asking });
        }
    }

    /// Sends at once what was redirected, and once more what was sent on a connection that had been
    /// cut while it was idle. So a server that does not reply delays only its own requests.
    fn send_again(&mut self) {
        let mut groups = List::new();
        for index in 0..self.requests.len() {
            if let Some(server) = self.server_of_next_copy(index) {
                self.requests[index].outcome = None;
                add(&mut groups, index, server);
            }
        }
        if !groups.is_empty() {
            self.send(groups);
        }
    }

    /// The server to which this request is sent again now, if it is.
    pub(super) fn server_of_next_copy(&mut self, index: usize) -> Option<Arc<Server>> {
        let request = &mut self.requests[index];
        if !matches!(request.outcome, Some(Err(_))) || self.until.is_past() {
            return None;
        }
        let server = Arc::clone(&request.redirect.as_ref()?.server);
        // Its requests follow when the exchange that is under way is over.
        let mut open = self.open.iter();
        if open.any(|exchange| exchange.server.name() == server.name()) {
            return None;
        }
        request.redirections += 1;
        if request.redirections == REDIRECTIONS {
            let cause = "too many MOVED or ASK redirects";
            self.fail(index, Failure::NotSent(cause.into()));
            return None;
        }
        request.replace_call(|| (self.next_call)(index));
        Some(server)
    }

    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        let request = &mut self.requests[index];
        request.redirect = None;
        request.outcome = Some(Err(failure));
    }
}
