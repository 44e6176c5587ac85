//! Requests to the servers of a majority: each is sent once, at the speed of the servers that
//! reply. Only composites use it.

use std::time::Duration;

use redis::Value;

use super::attempt::{Attempt, BRIEFLY};
use super::reply::{NoReply, Reply};
use super::state::{Failure, Request, RequestState, reply_deadline};
use crate::base::{CallBudget, List, Moment};
use crate::script::Call;
use crate::transport::links::Purpose;

/// Sends each request once: everything is sent before the first reply is read. As soon as it is
/// settled whether `needed` replies are good, the thread waits for the others only as long again,
/// or as long as they usually take. The circuit breaker skips servers that did not reply lately, if
/// enough others remain.
///
/// A request whose connection was cut while it was idle is sent a second time. `next_call` can put
/// another call in its place.
pub(crate) fn request_majority(
    requests: &[Request<'_>],
    needed: usize,
    is_good: fn(&Value) -> bool,
    mut next_call: impl FnMut(usize) -> Option<Call>,
    budget: &CallBudget,
) -> List<Result<Reply, NoReply>> {
    let mut states: List<RequestState<'_>> = requests.iter().map(RequestState::new).collect();
    skip_unresponsive(&mut states, needed);
    // A majority does not wait for what opening one connection can take.
    let clients = requests.iter().map(|request| request.client);
    let timeout = clients.map(|client| client.command_timeout).max();
    let until = Moment::now().after(timeout.unwrap_or_default());
    let until = until.min(reply_deadline(requests, budget));
    let mut attempt = Attempt::new(&mut states, Purpose::Caller, until, &mut next_call);
    attempt.majority = Some(needed);
    attempt.begin(List::new());
    while !attempt.open.is_empty() {
        if attempt.late_after == Moment::NEVER && is_settled(attempt.requests, needed, is_good) {
            attempt.late_after = attempt.end_of_graces();
        }
        attempt.receive();
    }
    let end = |state: &mut RequestState<'_>| {
        state.settle();
        state.finish(budget)
    };
    states.iter_mut().map(end).collect()
}

/// The circuit breaker: requests whose servers did not reply lately are not sent, if enough others
/// remain.
fn skip_unresponsive(states: &mut [RequestState<'_>], needed: usize) {
    let is_skipped = |state: &RequestState<'_>| state.request.client.skips(state.request.lock);
    let skipped: Vec<bool> = states.iter().map(is_skipped).collect();
    let others = skipped.iter().filter(|is_skipped| !**is_skipped).count();
    if others < needed {
        return;
    }
    for (state, is_skipped) in states.iter_mut().zip(skipped) {
        if is_skipped {
            let cause = "the circuit breaker skips the server, which did not reply lately";
            state.outcome = Some(Err(Failure::NotSent(cause.into())));
        }
    }
}

/// True if it is known by now whether enough replies are good.
fn is_settled(states: &[RequestState<'_>], needed: usize, is_good: fn(&Value) -> bool) -> bool {
    let (mut good, mut bad) = (0, 0);
    for outcome in states.iter().filter_map(|state| state.outcome.as_ref()) {
        match outcome {
            Ok((reply, _)) if is_good(reply) => good += 1,
            _ => bad += 1,
        }
    }
    good >= needed || bad + needed > states.len()
}

impl Attempt<'_, '_> {
    /// When late replies are not waited for any longer, if it is settled now whether there are
    /// enough: they have as much time again, or as long as they usually take.
    fn end_of_graces(&self) -> Moment {
        let graces = self.open.iter().map(|exchange| {
            let unknown = self.client(exchange.indices[0]).command_timeout / 4;
            exchange.server.health.grace(unknown)
        });
        let now = Moment::now();
        now.after(now.since(self.began).max(graces.max().unwrap_or_default()))
    }

    /// The time to look up or to connect a server that is not needed.
    pub(super) fn grace_to_reach(&self, index: usize) -> Duration {
        let (client, lock) = (self.client(index), self.requests[index].request.lock);
        let unknown = client.command_timeout / 4;
        client
            .health(lock, |health| health.grace(unknown))
            .max(BRIEFLY)
    }
}
