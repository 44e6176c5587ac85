//! The confirmation of a grant by replicas (`min_replicas`).
//!
//! WAIT blocks its connection, and counts the replicas that have the last write of that connection.
//! So it is not sent on the link that carried the grant, which many threads share. A connection of
//! the pool carries a further copy of the request, and then WAIT. That copy finds what the earlier
//! one was granted, and always writes. A replica that has this write has all that its server has
//! written before, so it has the grant, also if a failover came between the two copies.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::exchange::Exchange;
use super::reply::{NoReply, Reply};
use super::state::{Failure, Request, RequestState, reply_deadline};
use crate::base::{CallBudget, Moment};
use crate::error::Error;
use crate::protocol::decoded;
use crate::script::Call;
use crate::transport::link::reply_of;
use crate::transport::links::Purpose;
use crate::transport::server::Server;

/// Makes replicas confirm what a request was granted, if its client requires that. `next_call` is
/// the call of a further copy. A grant without enough replicas is a lost copy of the request, which
/// the caller undoes.
pub(crate) fn confirmed(
    result: Result<Reply, NoReply>,
    request: &Request<'_>,
    mut next_call: impl FnMut(usize) -> Option<Call>,
    budget: &CallBudget,
) -> Result<Reply, NoReply> {
    let Request { client, lock, .. } = *request;
    let Some((wanted, time)) = client.min_replicas else {
        return result;
    };
    let granted = match result {
        Ok(reply) if request.call.has_taken(&reply.reply) => reply,
        other => return other,
    };
    let call = next_call(0).unwrap_or_else(|| request.call.clone());
    let copy = Request {
        others: request.others.clone(),
        until: request.until,
        ..Request::new(client, lock, call)
    };
    let mut state = RequestState::new(&copy);
    // They may still be executed, after this copy.
    state.lost_copies = granted.lost_copies;
    let states = slice::from_mut(&mut state);
    let until = reply_deadline(slice::from_ref(&copy), budget);
    let mut attempt = Attempt::new(states, Purpose::Caller, until, &mut next_call);
    let mut replicas = None;
    let mut server = client.topology.known(lock);
    while let Some(to) = server {
        replicas = attempt.confirm(to, wanted, time);
        server = attempt.server_of_next_copy(0);
    }
    if let Some(confirmed) = replicas.filter(|replicas| *replicas < wanted) {
        client.observer.counters.unreplicated.add(1);
        state.outcome = Some(Err(Failure::Final(Error::TooFewReplicas {
            lock: lock.name().into(),
            node: client.topology.name(lock).as_ref().into(),
            wanted,
            confirmed,
        })));
    }
    state.settle();
    let result = state.finish(budget);
    result.map_err(|mut no_reply| {
        no_reply.lost_copies.copies += 1;
        no_reply
    })
}

impl Attempt<'_, '_> {
    /// Sends the only request of the attempt on a connection of its own, and WAIT after it. Returns
    /// how many replicas have what it wrote.
    fn confirm(&mut self, server: Arc<Server>, wanted: u32, time: Duration) -> Option<u32> {
        let client = self.client(0);
        let connect_timeout = client.connect_timeout.min(self.until.left());
        let own = server
            .blocking_connections
            .get(connect_timeout)
            .map_err(|error| {
                let in_use = || Failure::NotSent("all replica_connections are in use".into());
                self.fail(0, error.map_or_else(in_use, Failure::Redis));
            });
        let own = own.ok()?;
        // The rest of the time is for the replies, and for the release if there are too few.
        let time = time.min(self.until.left() * 3 / 4);
        let mut wait = redis::cmd("WAIT");
        // Zero would mean no timeout.
        wait.arg(wanted).arg(time.as_millis().max(1).to_string());
        own.choose(2);
        let sent_at = Moment::now();
        let sent = own.send(1, sent_at, |out| self.requests[0].pack(out));
        let waiting = own.send(1, sent_at, |out| {
            out.commands(1, &wait.get_packed_command());
        });
        let exchange = Exchange::of_one(server, sent);
        exchange.sent.wait(self.until, client.command_timeout);
        self.finish(&exchange);
        let Some(Ok(_)) = self.requests[0].outcome else {
            return None;
        };
        let longest = time.saturating_add(client.command_timeout);
        waiting.wait(self.until.min(sent_at.after(longest)), longest);
        let replicas = reply_of(waiting.pending.outcomes().pop().flatten());
        let replicas = replicas.and_then(|replicas| decoded(&replicas));
        let failed = replicas.map_err(|error| {
            exchange.server.failed(&error, true, sent_at);
            self.fail(0, Failure::Redis(error));
        });
        failed.ok()
    }
}
