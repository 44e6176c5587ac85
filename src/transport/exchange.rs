//! Requests that were sent together on one connection. Their replies come in the same order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::connection::{Connection, asking};
use super::pool::Slot;
use super::retry_action::RetryAction;
use super::server::Server;
use crate::base::clock::Moment;
use crate::script::Call;

/// How long a reply is waited for before the next server's is looked at.
pub(crate) const FIRST_LOOK: Duration = Duration::from_millis(1);
pub(crate) const LONGEST_LOOK: Duration = Duration::from_millis(16);

/// The requests to one server that have no reply yet.
pub(crate) struct Exchange<'s> {
    /// The index of one of the requests; all are of one client.
    pub(crate) place: usize,
    pub(crate) server: &'s Arc<Server>,
    pub(crate) slot: Slot<'s>,
    pub(crate) connection: Connection,
    pub(crate) asked: Moment,
    /// In the order in which they were sent.
    pub(crate) pending: VecDeque<Pending>,
    /// Requests whose scripts the server does not know. They are sent again when all others have
    /// their replies.
    unknown: VecDeque<Pending>,
    /// The reply to the ASKING before the first of them, if that is there.
    acknowledged: Option<RedisResult<()>>,
    /// The connection can be used again.
    pub(crate) is_sound: bool,
    /// A part of a request went out, and nothing may follow it.
    pub(crate) is_torn: bool,
    /// One request was sent, with one reply.
    is_single: bool,
    /// Requests that took a lock which replicas must confirm.
    pub(crate) taken: Vec<usize>,
}

/// A request without a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) place: usize,
    /// With ASKING before it, which has a reply of its own.
    pub(crate) asking: bool,
    by_source: bool,
}

/// What a look for a reply found.
pub(crate) enum Received {
    /// The reply to this request.
    Reply(usize, RedisResult<Value>),
    /// Nothing in the time that the connection was given.
    Nothing,
    /// The connection broke, and no reply comes any more.
    Broken(RedisError),
}

impl Pending {
    pub(crate) fn new(place: usize, asking: bool) -> Self {
        Self {
            place,
            asking,
            by_source: false,
        }
    }

    /// The request in bytes.
    pub(crate) fn packed(self, call: &Call, connection: &Connection) -> Vec<u8> {
        let packed = if self.by_source {
            call.by_source(connection.publish())
        } else {
            call.by_hash(connection.publish())
        };
        if self.asking { asking(packed) } else { packed }
    }
}

impl<'s> Exchange<'s> {
    /// Requests that have just been sent.
    pub(crate) fn new(
        place: usize,
        server: &'s Arc<Server>,
        slot: Slot<'s>,
        connection: Connection,
        asked: Moment,
        pending: VecDeque<Pending>,
    ) -> Self {
        let is_single = pending.len() == 1 && pending.iter().all(|only| !only.asking);
        Self {
            place,
            server,
            slot,
            connection,
            asked,
            pending,
            unknown: VecDeque::new(),
            is_single,
            acknowledged: None,
            is_sound: true,
            is_torn: false,
            taken: Vec::new(),
        }
    }

    /// Whether the server has done the only request, whose reply has begun to arrive.
    pub(crate) fn has_begun_its_only_reply(&self) -> bool {
        self.is_single && self.connection.is_answered()
    }

    /// Whether every request has its reply.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.is_empty() && self.unknown.is_empty()
    }

    /// The next reply. Requests whose scripts the server does not know are sent again by their
    /// sources, which may take `time`.
    pub(crate) fn receive<'c>(
        &mut self,
        call: impl Fn(usize) -> &'c Call,
        time: Duration,
    ) -> Received {
        while let Some(&first) = self.pending.front() {
            let reply = self.connection.receive();
            match &reply {
                Err(error) if error.is_timeout() => return Received::Nothing,
                Err(error) if !RetryAction::is_reply(error) => {
                    return Received::Broken(error.clone());
                }
                _ => {}
            }
            if first.asking && self.acknowledged.is_none() {
                self.acknowledged = Some(reply.map(drop));
                continue;
            }
            // If the server refused ASKING, that error is the reason.
            let reply = match (reply, self.acknowledged.take()) {
                (Err(_), Some(Err(refusal))) => Err(refusal),
                (reply, _) => reply,
            };
            self.pending.pop_front();
            let is_unknown = |error: &RedisError| RetryAction::on(error) == RetryAction::SendSource;
            if first.by_source || !reply.as_ref().is_err_and(is_unknown) {
                return Received::Reply(first.place, reply);
            }
            self.unknown.push_back(Pending {
                by_source: true,
                ..first
            });
        }
        self.pending = std::mem::take(&mut self.unknown);
        let requests = self.pending.iter();
        let packed: Vec<u8> = requests
            .flat_map(|request| request.packed(call(request.place), &self.connection))
            .collect();
        self.connection.set_time_limit(time);
        match self.connection.send(&packed) {
            Ok(()) => Received::Nothing,
            Err(error) => {
                self.is_torn = true;
                Received::Broken(error)
            }
        }
    }
}
