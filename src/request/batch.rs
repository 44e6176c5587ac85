//! Requests that belong to one call, each to the server that has its lock: sent until every one
//! has a reply, or sent once.

use std::mem;
use std::slice;
use std::time::Duration;

use redis::{RedisResult, Value};

use super::attempt::Attempt;
use super::client::RedisClient;
use super::exchange::Exchange;
use super::prepared::Prepared;
use super::reply::{LostCopies, NoReply, Reply};
use super::state::{Request, RequestState, reply_deadline};
use crate::base::{Backoff, CallBudget, List, LockKey, Moment};
use crate::error::Error;
use crate::script::Call;
use crate::transport::links::Purpose;

/// The pauses between attempts without a reply. The first retry is immediate.
pub(crate) const RETRIES: Backoff =
    Backoff::new(Duration::from_millis(25), Duration::from_millis(400)).with_immediate_retry();

impl RedisClient {
    /// Sends `call` until Redis gives a clear reply, for as long as `budget` allows.
    pub(crate) fn request(
        &self,
        lock: &LockKey,
        call: Call,
        budget: &CallBudget,
    ) -> Result<Reply, NoReply> {
        let request = Request::new(self, lock, call);
        request_one(&request, |_| None, budget)
    }

    /// As [`request`](Self::request), and decodes the reply.
    pub(crate) fn request_decoded<T>(
        &self,
        lock: &LockKey,
        call: Call,
        decode: fn(&Value) -> RedisResult<T>,
        budget: &CallBudget,
    ) -> Result<T, Error> {
        let reply = self.request(lock, call, budget);
        let reply = reply.map_err(|no_reply| *no_reply.error)?.reply;
        decode(&reply).map_err(|error| self.refusal(lock, error))
    }
}

/// Sends a request once, and waits for its reply for one command timeout. It is not repeated, but
/// sent a second time if its connection was cut while it was idle.
pub(crate) fn request_once(request: &Request<'_>, budget: &CallBudget) -> Result<Reply, NoReply> {
    let mut state = RequestState::new(request);
    let until = Moment::now().after(request.client.command_timeout);
    let until = until.min(reply_deadline(slice::from_ref(request), budget));
    let states = slice::from_mut(&mut state);
    Attempt::new(states, Purpose::Caller, until, &mut |_| None).run(List::new());
    state.settle();
    state.finish(budget)
}

/// Sends each request until it has a clear reply, or the time of the call or of one of the requests
/// is over. Nothing is sent after that. The requests to one server are sent together on one
/// connection. While a copy of a request may still be executed, `next_call` can put another call in
/// place of the next copy. A call that is not repeatable is then not sent again.
pub(crate) fn request_batch(
    requests: &[Request<'_>],
    mut next_call: impl FnMut(usize) -> Option<Call>,
    budget: &CallBudget,
) -> List<Result<Reply, NoReply>> {
    match requests {
        [request] => List::from_buf([request_one(request, next_call, budget)]),
        _ => {
            let reply_by = reply_deadline(requests, budget);
            repeat(requests, List::new(), &mut next_call, reply_by, budget)
        }
    }
}

/// As [`request_batch`], for one request. Nearly all requests are sent here, on an open link,
/// unless the subscriber thread has sent them. Anything but a good reply is left to [`Attempt`].
pub(crate) fn request_one(
    request: &Request<'_>,
    mut next_call: impl FnMut(usize) -> Option<Call>,
    budget: &CallBudget,
) -> Result<Reply, NoReply> {
    let requests = slice::from_ref(request);
    let reply_by = reply_deadline(requests, budget);
    let Request {
        client, lock, call, ..
    } = request;
    let mut sent = request.prepared.and_then(Prepared::take);
    if sent.is_none() {
        let now = Moment::now();
        if now < reply_by
            && call.is_repeatable()
            && client.topology.check(lock).is_ok()
            && let Some(server) = client.topology.known(lock)
            && let Some(link) = server.links(Purpose::Caller).open_link(1, now)
        {
            let copy = link.send(1, now, |out| out.call(call, false));
            sent = Some(Exchange::of_one(server, copy));
        }
    }
    if let Some(exchange) = &sent {
        exchange.sent.wait(reply_by, client.command_timeout);
        if let Some((reply, at)) = exchange.sent.pending.take_reply() {
            exchange.replied(at);
            return Ok(Reply {
                reply,
                asked: exchange.sent.sent_at,
                lost_copies: LostCopies::default(),
            });
        }
    }
    let sent = sent.into_iter().collect();
    repeat(requests, sent, &mut next_call, reply_by, budget).remove(0)
}

/// Makes attempts until each request has a clear reply, or the time is over. Those that are in
/// `sent` are sent already.
fn repeat(
    requests: &[Request<'_>],
    mut sent: List<Exchange>,
    next_call: &mut dyn FnMut(usize) -> Option<Call>,
    reply_by: Moment,
    budget: &CallBudget,
) -> List<Result<Reply, NoReply>> {
    let mut states: List<RequestState<'_>> = requests.iter().map(RequestState::new).collect();
    let mut backoff = RETRIES;
    let began = Moment::now();
    let until = || budget.minus_skipped(reply_by, began);
    while Attempt::new(&mut states, Purpose::Caller, until(), next_call).run(mem::take(&mut sent)) {
        states.iter_mut().for_each(RequestState::settle);
        if states.iter().all(|state| state.outcome.is_some()) {
            break;
        }
        budget.park(backoff.next().min(until().left()));
        for (index, state) in states.iter_mut().enumerate() {
            if state.outcome.is_none() {
                state.next_step(|| next_call(index), budget);
            }
        }
    }
    let end = |state: &mut RequestState<'_>| {
        state.announce(reply_by);
        state.finish(budget)
    };
    states.iter_mut().map(end).collect()
}
