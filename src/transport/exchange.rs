//! The state machine of an exchange: requests that are sent together on one connection, and their
//! replies, which arrive in the same order.
//!
//! | state of a request | what comes next |
//! |---|---|
//! | sent by the script's hash | its reply; after NOSCRIPT it is sent again by the source |
//! | sent by the script's source | its reply |
//! | either, with ASKING before it | the reply to ASKING, then as above |

use std::collections::VecDeque;
use std::sync::Arc;

use redis::{RedisError, RedisResult, Value};

use crate::base::clock::Moment;
use crate::script::Call;
use crate::transport::connection::Connection;
use crate::transport::pool::Slot;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// The requests to one server that have no reply yet.
pub(crate) struct Exchange {
    pub(crate) server: Arc<Server>,
    pub(crate) slot: Slot,
    pub(crate) connection: Connection,
    /// The connection was open before this exchange.
    pub(crate) is_reused: bool,
    /// Before the requests were sent.
    pub(crate) sent_at: Moment,
    /// When a reply is not waited for any longer.
    pub(crate) reply_by: Moment,
    /// In the order in which they were sent.
    pub(crate) pending: VecDeque<Pending>,
    /// Requests whose scripts the server does not know. They are sent again after all others have
    /// their replies.
    pub(crate) unknown: VecDeque<Pending>,
    /// The reply to the ASKING before the first of them, if it has arrived.
    asked: Option<RedisResult<()>>,
    /// The connection can be used again.
    pub(crate) is_sound: bool,
    /// A part of a request was sent, and nothing may follow it.
    pub(crate) is_torn: bool,
    /// Requests that took a lock which replicas must confirm.
    pub(crate) taken: Vec<usize>,
}

/// A request without a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Its index among the requests of the call.
    pub(crate) place: usize,
    /// With ASKING before it, which has a reply of its own.
    asking: bool,
    by_source: bool,
}

/// What was received.
pub(crate) enum Received {
    /// The reply to this request.
    Reply(usize, RedisResult<Value>),
    /// Nothing has arrived.
    Nothing,
    /// The connection broke, and no reply will arrive.
    Broken(RedisError),
}

impl Pending {
    pub(crate) fn new(place: usize, asking: bool, by_source: bool) -> Self {
        Self {
            place,
            asking,
            by_source,
        }
    }

    /// Appends the request in bytes.
    fn pack(self, call: &Call, connection: &Connection, packed: &mut Vec<u8>) {
        if self.asking {
            packed.extend(redis::cmd("ASKING").get_packed_command());
        }
        packed.extend(if self.by_source {
            call.by_source(connection.publish())
        } else {
            call.by_hash(connection.publish())
        });
    }
}

impl Exchange {
    /// Sends these requests. The exchange comes back even if that fails: a part of the requests
    /// may have been sent.
    pub(crate) fn send<'c>(
        server: Arc<Server>,
        slot: Slot,
        (connection, is_reused): (Connection, bool),
        pending: VecDeque<Pending>,
        call: impl Fn(usize) -> &'c Call,
        reply_by: Moment,
    ) -> (Self, RedisResult<()>) {
        let mut exchange = Self {
            server,
            slot,
            connection,
            is_reused,
            sent_at: Moment::now(),
            reply_by,
            pending,
            unknown: VecDeque::new(),
            asked: None,
            is_sound: true,
            is_torn: false,
            taken: Vec::new(),
        };
        let sent = exchange.send_pending(call);
        (exchange, sent)
    }

    /// Whether every request has its reply.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.is_empty() && self.unknown.is_empty()
    }

    /// Receives the next reply, and waits for it until `wait_until`. When only requests are left
    /// whose scripts the server does not know, these are sent by their sources, and have until
    /// `reply_by`.
    pub(crate) fn receive<'c>(
        &mut self,
        call: impl Fn(usize) -> &'c Call,
        wait_until: Moment,
        reply_by: Moment,
    ) -> Received {
        self.connection.set_deadline(wait_until);
        while let Some(&first) = self.pending.front() {
            let reply = self.connection.receive();
            match &reply {
                Err(error) if error.is_timeout() => return Received::Nothing,
                Err(error) if !RetryAction::is_reply(error) => {
                    return Received::Broken(error.clone());
                }
                _ => {}
            }
            if first.asking && self.asked.is_none() {
                self.asked = Some(reply.map(drop));
                continue;
            }
            // If the server refused ASKING, that error is the reason.
            let reply = match (reply, self.asked.take()) {
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
        if reply_by.is_past() {
            return Received::Nothing;
        }
        self.pending = std::mem::take(&mut self.unknown);
        self.reply_by = reply_by;
        match self.send_pending(call) {
            Ok(()) => Received::Nothing,
            Err(error) => Received::Broken(error),
        }
    }

    fn send_pending<'c>(&mut self, call: impl Fn(usize) -> &'c Call) -> RedisResult<()> {
        let mut packed = Vec::new();
        for request in &self.pending {
            request.pack(call(request.place), &self.connection, &mut packed);
        }
        self.connection.set_deadline(self.reply_by);
        let sent = self.connection.send(&packed);
        // The server would take what follows half a request for the rest of it.
        self.is_torn = sent.is_err();
        sent
    }
}
