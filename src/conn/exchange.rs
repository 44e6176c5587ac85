//! Requests that were sent together on one connection. Their replies come in the same order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::advice::Advice;
use super::pool::Slot;
use super::server::Server;
use super::wire::{Wire, asking};
use crate::clock::Moment;
use crate::script::Call;

/// How long a reply is waited for before the next server's is looked at.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(1);
pub(super) const LONGEST_LOOK: Duration = Duration::from_millis(16);

/// The requests to one server that have no reply yet.
pub(super) struct Exchange<'s> {
    pub(super) server: &'s Arc<Server>,
    pub(super) slot: Slot<'s>,
    pub(super) wire: Wire,
    pub(super) asked: Moment,
    /// In the order in which they were sent.
    pub(super) pending: VecDeque<Pending>,
    /// The reply to the ASKING before the first of them, if that is there.
    acknowledged: Option<RedisResult<()>>,
    /// The connection can be used again.
    pub(super) is_sound: bool,
    /// A part of a request went out, and nothing may follow it.
    pub(super) is_torn: bool,
    /// One request was sent, with one reply.
    is_single: bool,
    /// Requests that have taken a lock, which is to be on replicas.
    pub(super) taken: Vec<usize>,
}

/// A request without a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) place: usize,
    /// With ASKING before it, which has a reply of its own.
    pub(super) asking: bool,
    by_source: bool,
}

/// What a look for a reply found.
pub(super) enum Received {
    /// The reply to this request.
    Reply(usize, RedisResult<Value>),
    /// Nothing in the time that the connection was given.
    Nothing,
    /// The connection broke, and no reply comes any more.
    Broken(RedisError),
}

impl Pending {
    pub(super) fn new(place: usize, asking: bool) -> Self {
        Self {
            place,
            asking,
            by_source: false,
        }
    }

    /// The request in bytes.
    pub(super) fn packed(self, call: &Call, wire: &Wire) -> Vec<u8> {
        let packed = if self.by_source {
            call.by_source(wire.publish())
        } else {
            call.by_hash(wire.publish())
        };
        if self.asking { asking(packed) } else { packed }
    }
}

impl<'s> Exchange<'s> {
    /// Requests that have just been sent.
    pub(super) fn new(
        server: &'s Arc<Server>,
        slot: Slot<'s>,
        wire: Wire,
        asked: Moment,
        pending: VecDeque<Pending>,
    ) -> Self {
        let is_single = pending.len() == 1 && pending.iter().all(|only| !only.asking);
        Self {
            server,
            slot,
            wire,
            asked,
            pending,
            is_single,
            acknowledged: None,
            is_sound: true,
            is_torn: false,
            taken: Vec::new(),
        }
    }

    /// Whether the server has done the only request, whose reply has begun to arrive.
    pub(super) fn has_begun_its_only_reply(&self) -> bool {
        self.is_single && self.wire.is_answered()
    }

    /// The next reply. A request whose script the server does not know is sent again by its source, behind the
    /// others.
    pub(super) fn receive<'c>(&mut self, call: impl Fn(usize) -> &'c Call) -> Received {
        while let Some(&first) = self.pending.front() {
            let reply = self.wire.receive();
            match &reply {
                Err(error) if error.is_timeout() => return Received::Nothing,
                Err(error) if !Advice::is_reply(error) => return Received::Broken(error.clone()),
                _ => {}
            }
            if first.asking && self.acknowledged.is_none() {
                self.acknowledged = Some(reply.map(drop));
                continue;
            }
            // A server that refuses ASKING says why to that.
            let reply = match (reply, self.acknowledged.take()) {
                (Err(_), Some(Err(refusal))) => Err(refusal),
                (reply, _) => reply,
            };
            self.pending.pop_front();
            match reply {
                Err(error) if Advice::on(&error) == Advice::SendSource && !first.by_source => {
                    let again = Pending {
                        by_source: true,
                        ..first
                    };
                    self.pending.push_back(again);
                    self.wire.give(LONGEST_LOOK);
                    let packed = again.packed(call(again.place), &self.wire);
                    if let Err(error) = self.wire.send(&packed) {
                        self.is_torn = true;
                        return Received::Broken(error);
                    }
                    if self.pending.front().is_some_and(|next| next.by_source) {
                        return Received::Nothing;
                    }
                }
                reply => return Received::Reply(first.place, reply),
            }
        }
        Received::Nothing
    }
}
