//! Requests that belong to one call, each to the server that has its lock: sent until every one
//! has a reply, or sent once at the speed of the servers that reply.

use std::time::Duration;

use redis::{RedisResult, Value};

use super::attempt::Attempt;
use super::client::RedisClient;
use super::exchange::Exchange;
use super::prepared::Prepared;
use super::reply::{LostCopies, NoReply, Reply};
use super::state::{Enough, Failure, Request, RequestState};
use crate::base::backoff::Backoff;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::error::Error;
use crate::script::Call;
use crate::transport::links::Purpose;

/// The pauses between attempts. The first retry is immediate.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

impl RedisClient {
    /// Sends `call` until Redis gives a clear reply, for as long as `budget` allows.
    pub(crate) fn request(
        &self,
        lock: &LockKey,
        call: Call,
        budget: &CallBudget,
    ) -> Result<Reply, NoReply> {
        let request = Request::new(self, lock, call);
        request_one(&request, |_| None, budget.reply_deadline(), budget)
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
        let reply = reply.map_err(|no_reply| no_reply.error)?.reply;
        decode(&reply).map_err(|error| self.refusal(lock, error))
    }
}

/// Sends each request once, on this thread: everything is sent before the first reply is read. As
/// soon as it is settled whether enough replies are good, the thread waits for the others only as
/// long again, or as long as they usually take. The circuit breaker skips servers that did not
/// reply lately, if enough others remain.
///
/// A request whose connection was cut while it was idle is sent a second time. `next_call` can put
/// another call in its place.
pub(crate) fn broadcast(
    requests: &[Request<'_>],
    enough: Enough,
    mut next_call: impl FnMut(usize) -> Option<Call>,
    budget: &CallBudget,
) -> List<Result<Reply, NoReply>> {
    let mut states: List<RequestState<'_>> = requests.iter().map(RequestState::new).collect();
    // A majority does not wait for what opening one connection can take.
    let clients = requests.iter().map(|request| request.client);
    let timeout = clients.map(|client| client.command_timeout).max();
    let until = Moment::now().after(timeout.unwrap_or_default());
    let until = until.min(budget.reply_deadline());
    let (enough, purpose) = (Some(enough), Purpose::Caller);
    Attempt::new(&mut states, enough, purpose, until, &mut next_call).run(List::new());
    states.iter_mut().for_each(RequestState::settle);
    finish(states, budget)
}

/// Sends a request once. It is not repeated without a reply.
pub(crate) fn request_once(request: &Request<'_>, budget: &CallBudget) -> Result<Reply, NoReply> {
    let enough = Enough {
        needed: 1,
        is_good: |_| true,
    };
    let mut replies = broadcast(std::slice::from_ref(request), enough, |_| None, budget);
    replies.remove(0)
}

/// Sends each request until it has a clear reply, all of them within one deadline, `reply_by`.
/// The requests to one server are sent together on one connection. While a copy of a request may
/// still be executed, `next_call` can put another call in place of the next copy. A call that is
/// not repeatable is then not sent again.
///
/// Nothing is sent once the deadline has passed.
pub(crate) fn request_batch(
    requests: &[Request<'_>],
    mut next_call: impl FnMut(usize) -> Option<Call>,
    reply_by: Moment,
    budget: &CallBudget,
) -> List<Result<Reply, NoReply>> {
    if let [request] = requests {
        return List::from_buf([request_one(request, next_call, reply_by, budget)]);
    }
    let mut states: List<RequestState<'_>> = requests.iter().map(RequestState::new).collect();
    repeat(&mut states, List::new(), &mut next_call, reply_by, budget);
    finish(states, budget)
}

/// As [`request_batch`], for one request.
pub(crate) fn request_one(
    request: &Request<'_>,
    mut next_call: impl FnMut(usize) -> Option<Call>,
    reply_by: Moment,
    budget: &CallBudget,
) -> Result<Reply, NoReply> {
    match straight(request, reply_by) {
        Ok(reply) => Ok(reply),
        Err(exchange) => {
            let mut state = RequestState::new(request);
            let open = exchange.into_iter().map(|exchange| *exchange).collect();
            let states = std::slice::from_mut(&mut state);
            repeat(states, open, &mut next_call, reply_by, budget);
            state.finish(budget)
        }
    }
}

/// Makes attempts until each request has a clear reply, or the time is over. Those that are `open`
/// are sent already.
fn repeat(
    states: &mut [RequestState<'_>],
    mut open: List<Exchange>,
    next_call: &mut dyn FnMut(usize) -> Option<Call>,
    reply_by: Moment,
    budget: &CallBudget,
) {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).with_immediate_retry();
    let began = Moment::now();
    let until = || budget.minus_skipped(reply_by, began);
    loop {
        let mut attempt = Attempt::new(states, None, Purpose::Caller, until(), next_call);
        if !attempt.run(std::mem::take(&mut open)) {
            break;
        }
        states.iter_mut().for_each(RequestState::settle);
        if states.iter().all(|state| state.outcome.is_some()) {
            break;
        }
        budget.park(backoff.next().min(until().left()));
        for (place, state) in states.iter_mut().enumerate() {
            if state.outcome.is_some() {
                continue;
            }
            if let Err(interrupted) = budget.check_interrupt(state.request.lock.name()) {
                state.outcome = Some(Err(Failure::Final(interrupted)));
            } else if !state.is_repeatable() {
                let error = state.unavailable(budget);
                state.outcome = Some(Err(Failure::Final(error)));
            } else {
                state.replace_call(|| next_call(place));
            }
        }
    }
    for state in states {
        state.announce(reply_by);
    }
}

/// Sends a request on an open link, unless it is sent already, and waits for its reply. This is the
/// way of nearly all requests. Anything but a good reply is left to [`Attempt`]: the error is the
/// exchange, if the request was sent.
fn straight(request: &Request<'_>, until: Moment) -> Result<Reply, Option<Box<Exchange>>> {
    let Request {
        client, lock, call, ..
    } = request;
    let exchange = match request.prepared.and_then(Prepared::take) {
        Some(sent) => sent,
        None => {
            let now = Moment::now();
            let is_plain = call.is_repeatable() && !request.is_exclusive(call);
            if now >= until || !is_plain || client.topology.check(lock).is_err() {
                return Err(None);
            }
            let server = client.topology.known(lock).ok_or(None)?;
            let link = server
                .links(Purpose::Caller)
                .open_link(1, now)
                .ok_or(None)?;
            let sent = link.send(1, now, |out| out.call(call, false));
            Exchange::of_one(server, sent)
        }
    };
    exchange.sent.wait(until, client.command_timeout);
    match exchange.sent.pending.take_reply() {
        Some((reply, at)) => {
            exchange.replied(at);
            Ok(Reply {
                reply,
                asked: exchange.sent.sent_at,
                unreplicated: None,
                lost_copies: LostCopies::default(),
            })
        }
        None => Err(Some(Box::new(exchange))),
    }
}

fn finish(mut states: List<RequestState<'_>>, budget: &CallBudget) -> List<Result<Reply, NoReply>> {
    let states = states.iter_mut();
    states.map(|state| state.finish(budget)).collect()
}
