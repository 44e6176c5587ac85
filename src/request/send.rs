//! Sends the requests of an attempt: where a connection is open first.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

use super::attempt::{Attempt, BRIEFLY};
use super::exchange::{Exchange, Group};
use super::state::Failure;
use crate::base::{List, Moment};
use crate::transport::link::Link;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

impl Attempt<'_, '_> {
    /// Sends each group: first where a connection is open, and last to servers that did not reply
    /// to the last request.
    pub(super) fn send(&mut self, groups: List<Group>) {
        let mut unopened = List::new();
        for group in groups {
            match self.open_link(&group) {
                Some(link) => self.send_group(group, &link),
                None => unopened.push(group),
            }
        }
        unopened.sort_by_cached_key(|group: &Group| group.server.health.is_unresponsive());
        let count = unopened.len();
        for (tried, group) in unopened.into_iter().enumerate() {
            let ready = self
                .open
                .iter()
                .map(|exchange| exchange.indices.len())
                .sum();
            let longest = self.client(group.indices[0]).connect_timeout;
            let time = self.time_to_reach(group.indices[0], longest, count - tried, ready);
            let requests = group.indices.len();
            let failure = match group.server.link(self.purpose, requests, time) {
                Ok(link) if !self.until.is_past() => {
                    self.send_group(group, &link);
                    continue;
                }
                // It is not sent, so no copy is lost, and the server is not to blame.
                Ok(link) => {
                    link.give_back(requests);
                    io::Error::from(io::ErrorKind::TimedOut).into()
                }
                Err(failure) => {
                    self.not_opened(&group.server, &failure, time);
                    failure
                }
            };
            for &index in &group.indices {
                self.fail(index, Failure::Redis(failure.clone()));
            }
        }
    }

    /// A link that is open. A broken one would leave it unknown whether a request was executed that
    /// must not be repeated, so it is checked before.
    fn open_link(&self, group: &Group) -> Option<Arc<Link>> {
        let requests = group.indices.len();
        let mut states = group.indices.iter().map(|&index| &self.requests[index]);
        let is_repeatable = states.all(|state| state.call().is_repeatable());
        let timeout = self.client(group.indices[0]).command_timeout;
        loop {
            let now = Moment::now();
            let link = group.server.links(self.purpose).open_link(requests, now)?;
            let until = self.until.min(now.after(timeout));
            if is_repeatable || link.is_alive(until) {
                return Some(link);
            }
            link.give_back(requests);
        }
    }

    /// Records that no connection could be opened within `time`.
    fn not_opened(&self, server: &Server, error: &RedisError, time: Duration) {
        server.failed(error, false, Moment::now());
        // In less time even a healthy server may not be reached.
        let is_brief = error.is_timeout() && time < BRIEFLY;
        if !is_brief && !RetryAction::is_refusal(error) {
            server.unanswered(self.began);
        }
    }

    fn send_group(&mut self, group: Group, link: &Arc<Link>) {
        let Group { indices, server } = group;
        let sent = link.send(indices.len(), Moment::now(), |out| {
            for &index in &indices {
                self.requests[index].pack(out);
            }
        });
        self.open.push(Exchange {
            server,
            sent,
            indices,
        });
    }

    /// The time to reach the first of `untried` servers that are not ready, at most `longest`. Of a
    /// majority, `ready` requests may be enough without it.
    pub(super) fn time_to_reach(
        &self,
        index: usize,
        longest: Duration,
        untried: usize,
        ready: usize,
    ) -> Duration {
        let untried = u32::try_from(untried).unwrap_or(u32::MAX);
        let time = longest.min(self.until.left() / untried);
        match self.majority {
            Some(needed) if ready >= needed => time.min(self.grace_to_reach(index)),
            _ => time,
        }
    }
}
