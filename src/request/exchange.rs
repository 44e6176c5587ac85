//! Requests that were sent together to one server.

use std::sync::Arc;

use redis::RedisError;

use crate::base::{List, Moment};
use crate::transport::link::Sent;
use crate::transport::server::Server;

/// Requests to one server that were sent together. Dropping them abandons them.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) server: Arc<Server>,
    pub(super) sent: Sent,
    /// Their indices among the requests of the call.
    pub(super) indices: List<usize>,
}

impl Exchange {
    /// One request to this server.
    pub(super) fn of_one(server: Arc<Server>, sent: Sent) -> Self {
        Self {
            server,
            sent,
            indices: List::from_buf([0]),
        }
    }

    /// Records a reply that arrived at this moment.
    pub(super) fn replied(&self, at: Moment) {
        self.server.replied(at, at.since(self.sent.sent_at));
    }

    /// Records that the link broke. Returns the error.
    pub(super) fn broke(&self, error: RedisError) -> RedisError {
        let is_stale = self.sent.link.is_established();
        self.server.failed(&error, is_stale, self.sent.sent_at);
        // A connection that was cut while it was idle says nothing of its server.
        if error.is_timeout() || !is_stale {
            self.server.unanswered(self.sent.sent_at);
        }
        error
    }
}

/// Requests of one client to one server.
pub(super) struct Group {
    pub(super) indices: List<usize>,
    pub(super) server: Arc<Server>,
}

pub(super) fn add(groups: &mut List<Group>, index: usize, server: Arc<Server>) {
    let mut known = groups.iter_mut();
    match known.find(|group| Arc::ptr_eq(&group.server, &server)) {
        Some(group) => group.indices.push(index),
        None => groups.push(Group {
            indices: List::from_buf([index]),
            server,
        }),
    }
}
