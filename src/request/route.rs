//! Which server each request goes to.

use std::sync::Arc;

use super::attempt::Attempt;
use super::client::RedisClient;
use super::exchange::{Group, add};
use super::state::{Failure, Request};
use crate::base::List;
use crate::transport::server::Server;

impl Attempt<'_, '_> {
    /// Groups the requests by server, except those that are sent. Those of unknown servers are
    /// separate. A request that cannot be sent gets its outcome here.
    pub(super) fn groups(&mut self) -> (List<Group>, List<usize>) {
        let mut groups = List::new();
        let mut unknown = List::new();
        for index in 0..self.requests.len() {
            let mut open = self.open.iter();
            let is_open = open.any(|exchange| exchange.indices.contains(&index));
            if self.requests[index].outcome.is_some() || is_open {
                continue;
            }
            match self.known(index) {
                Ok(Some(server)) => add(&mut groups, index, server),
                Ok(None) => unknown.push(index),
                Err(failure) => self.fail(index, failure),
            }
        }
        (groups, unknown)
    }

    /// The server that a request goes to, if it is known.
    fn known(&self, index: usize) -> Result<Option<Arc<Server>>, Failure> {
        let state = &self.requests[index];
        let Request { client, lock, .. } = state.request;
        if let Some(to) = &state.redirect {
            return Ok(Some(Arc::clone(&to.server)));
        }
        client.topology.check(lock).map_err(Failure::Final)?;
        Ok(client.topology.known(lock))
    }

    /// Looks up unknown servers. One look-up covers all locks of a client, and a failed one is not
    /// repeated.
    pub(super) fn look_up(&mut self, mut unknown: List<usize>, groups: &mut List<Group>) {
        unknown.sort_by_key(|&index| std::ptr::from_ref(self.client(index)));
        let mut failed: Vec<(*const RedisClient, String)> = Vec::new();
        for (tried, &index) in unknown.iter().enumerate() {
            let (client, lock) = (self.client(index), self.requests[index].request.lock);
            let known = failed.iter().find(|(of, _)| std::ptr::eq(*of, client));
            if let Some((_, cause)) = known {
                let cause = cause.clone().into();
                self.fail(index, Failure::NotSent(cause));
                continue;
            }
            let is_same =
                |&one: &usize, &other: &usize| std::ptr::eq(self.client(one), self.client(other));
            let untried = unknown[tried..].chunk_by(is_same).count();
            let ready = groups.iter().map(|group| group.indices.len()).sum();
            let time = self.time_to_reach(index, client.connect_timeout, untried, ready);
            match client.topology.server(lock, time) {
                Ok(server) => add(groups, index, server),
                Err(error) => {
                    failed.push((client, error.to_string()));
                    let failure = Failure::of_route(lock.name(), error);
                    if matches!(failure, Failure::NotSent(_)) {
                        client.unanswered(lock, self.began);
                    }
                    self.fail(index, failure);
                }
            }
        }
    }
}
