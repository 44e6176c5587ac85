//! Sends the requests of an attempt: where a connection is open first.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

use super::attempt::{Attempt, BRIEFLY};
use super::exchange::{Exchange, Group};
use super::state::Failure;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::transport::exclusive::Checkout;
use crate::transport::link::Link;
use crate::transport::links::Purpose;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// On what a group of requests is sent. A connection of its own goes back to the pool when the
/// second is dropped.
type Carrier = (Arc<Link>, Option<Checkout>);

impl Attempt<'_, '_> {
    /// Sends each group: first where a connection is open, and last to servers that did not reply
    /// to the last request.
    pub(super) fn send(&mut self, groups: List<Group>) {
        let mut unopened = List::new();
        for group in groups {
            match self.open_link(&group) {
                Some(link) => self.send_group(group, (link, None)),
                None => unopened.push(group),
            }
        }
        // All threads open connections in one order, so that two of them do not wait for exclusive
        // connections that they have from each other.
        unopened.sort_by_cached_key(|group: &Group| {
            let server = &group.server;
            (server.health.is_unresponsive(), Arc::clone(server.name()))
        });
        let count = unopened.len();
        for (tried, group) in unopened.into_iter().enumerate() {
            let ready = self.open.iter().map(|exchange| exchange.places.len()).sum();
            let longest = self.client(group.places[0]).connect_timeout;
            let time = self.time_to_reach(group.places[0], longest, count - tried, ready);
            let failure = match self.connect(&group, time) {
                Ok(carrier) if !self.until.is_past() => {
                    self.send_group(group, carrier);
                    continue;
                }
                // It is not sent, so no copy is lost, and the server is not to blame.
                Ok((link, _own)) => {
                    link.give_back(group.places.len());
                    Some(io::Error::from(io::ErrorKind::TimedOut).into())
                }
                Err(failure) => {
                    self.not_opened(&group.server, failure.as_ref(), time);
                    failure
                }
            };
            for &place in &group.places {
                let failure = failure.clone().map_or(Failure::InUse, Failure::Redis);
                self.fail(place, failure);
            }
        }
    }

    fn is_exclusive(&self, group: &Group) -> bool {
        let mut places = group.places.iter();
        self.purpose == Purpose::Caller && places.any(|&place| self.requests[place].is_exclusive())
    }

    /// A link that is open, for a group that needs no connection of its own. A broken link would
    /// leave it unknown whether a request was executed that must not be repeated, so it is checked
    /// before.
    fn open_link(&self, group: &Group) -> Option<Arc<Link>> {
        if self.is_exclusive(group) {
            return None;
        }
        let requests = group.places.len();
        let mut states = group.places.iter().map(|&place| &self.requests[place]);
        let is_repeatable = states.all(|state| state.call().is_repeatable());
        let timeout = self.client(group.places[0]).command_timeout;
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

    /// Opens a connection for a group. If that fails, it is sent on an open one, whatever that is
    /// for. `None` as the error: all exclusive connections are in use.
    fn connect(&self, group: &Group, time: Duration) -> Result<Carrier, Option<RedisError>> {
        let (server, requests) = (&group.server, group.places.len());
        let own = match self.is_exclusive(group) {
            true => server.exclusive.get(time)?,
            false => match server.link(self.purpose, requests, time) {
                Ok(link) => return Ok((link, None)),
                Err(error) => server.exclusive.idle().ok_or(error)?,
            },
        };
        own.choose(requests);
        Ok((Arc::clone(&own), Some(own)))
    }

    /// Records that no connection could be opened within `time`.
    fn not_opened(&self, server: &Server, error: Option<&RedisError>, time: Duration) {
        let Some(error) = error else {
            if self.majority.is_some() {
                server.health.not_sent();
            }
            return;
        };
        server.failed(error, false, Moment::now());
        // In less time even a healthy server may not be reached.
        let is_brief = error.is_timeout() && time < BRIEFLY;
        if !is_brief && !RetryAction::is_refusal(error) {
            server.unanswered(self.began);
        }
    }

    fn send_group(&mut self, group: Group, (link, own): Carrier) {
        let Group { places, server } = group;
        let sent = link.send(places.len(), Moment::now(), |out| {
            for &place in &places {
                self.requests[place].pack(out);
            }
        });
        self.open.push(Exchange {
            server,
            sent,
            places,
            own,
        });
    }

    /// The time to reach the first of `untried` servers that are not ready, at most `longest`. Of a
    /// majority, `ready` requests may be enough without it.
    pub(super) fn time_to_reach(
        &self,
        place: usize,
        longest: Duration,
        untried: usize,
        ready: usize,
    ) -> Duration {
        let untried = u32::try_from(untried).unwrap_or(u32::MAX);
        let time = longest.min(self.until.left() / untried);
        match self.majority {
            Some(needed) if ready >= needed => time.min(self.grace_to_reach(place)),
            _ => time,
        }
    }
}
