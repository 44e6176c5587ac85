//! The state machine of an exchange: requests that are sent together on one connection, and their
//! replies, which arrive in the same order.
//!
//! | state of a request | what comes next |
//! |---|---|
//! | sent by the script's hash | its reply; after NOSCRIPT it is sent again by the source |
//! | sent by the script's source | its reply |
//! | either, with ASKING before it | the reply to ASKING, then as above |

use std::sync::Arc;

use redis::{RedisError, RedisResult, Value};

use crate::base::clock::Moment;
use crate::base::list::List;
use crate::script::{Call, Publish};
use crate::transport::connection::Connection;
use crate::transport::pool::Slot;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// The requests to one server that have no reply yet.
pub(crate) struct Exchange {
    pub(crate) server: Arc<Server>,
    pub(crate) slot: Slot,
    pub(crate) connection: Box<Connection>,
    /// The connection was open before this exchange.
    pub(crate) is_reused: bool,
    /// Before the requests were sent.
    pub(crate) sent_at: Moment,
    /// When a reply is not waited for any longer.
    pub(crate) reply_by: Moment,
    /// The requests without a reply, in reverse order: the next reply is to the last of them.
    /// Requests whose scripts the server does not know come first, because they are sent again
    /// after all others have their replies.
    pub(crate) pending: List<Pending>,
    /// The reply to the ASKING before the first of them, if it has arrived.
    asked: Option<RedisResult<()>>,
    /// The connection can be used again.
    pub(crate) is_sound: bool,
    /// A part of a request was sent, and nothing may follow it.
    pub(crate) is_torn: bool,
    /// Requests that took a lock which replicas must confirm.
    pub(crate) taken: List<usize>,
}

/// A request without a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Its index among the requests of the call.
    pub(crate) place: usize,
    /// With ASKING before it, which has a reply of its own.
    pub(crate) asking: bool,
    pub(crate) by_source: bool,
    pub(crate) is_sent: bool,
}

impl Pending {
    /// Appends the request in bytes.
    fn pack(self, call: &Call, publish: Publish, packed: &mut Vec<u8>) {
        if self.asking {
            packed.extend(redis::cmd("ASKING").get_packed_command());
        }
        if self.by_source {
            call.pack_by_source(publish, packed);
        } else {
            call.pack_by_hash(publish, packed);
        }
    }
}

impl Exchange {
    /// An exchange of which nothing is sent yet.
    pub(crate) fn new(
        server: Arc<Server>,
        slot: Slot,
        (connection, is_reused): (Box<Connection>, bool),
        sent_at: Moment,
        reply_by: Moment,
        pending: List<Pending>,
    ) -> Self {
        Self {
            server,
            slot,
            connection,
            is_reused,
            sent_at,
            reply_by,
            pending,
            asked: None,
            is_sound: true,
            is_torn: false,
            taken: List::new(),
        }
    }

    /// The request whose reply is the next.
    pub(crate) fn awaited(&self) -> Option<Pending> {
        self.pending.last().copied().filter(|first| first.is_sent)
    }

    /// Sends the requests, none of which is sent yet. After a failure, a part of them may have been
    /// sent.
    pub(crate) fn send<'c>(&mut self, call: impl Fn(usize) -> &'c Call) -> RedisResult<()> {
        self.connection.set_deadline(self.reply_by);
        let sent = self.connection.send_packed(|publish, packed| {
            for request in self.pending.iter_mut().rev() {
                request.pack(call(request.place), publish, packed);
                request.is_sent = true;
            }
        });
        // The server would take what follows half a request for the rest of it.
        self.is_torn = sent.is_err();
        sent
    }

    /// Receives the next reply, and tells which request it is to. Waits for it until the deadline
    /// of the connection; `None` if nothing has arrived by then. An error means that the connection
    /// broke, and no reply will arrive.
    pub(crate) fn receive(&mut self) -> RedisResult<Option<(usize, RedisResult<Value>)>> {
        while let Some(first) = self.awaited() {
            let reply = match self.connection.receive() {
                Err(error) if error.is_timeout() => return Ok(None),
                Err(error) if !RetryAction::is_reply(&error) => return Err(error),
                reply => reply,
            };
            if first.asking && self.asked.is_none() {
                self.asked = Some(reply.map(drop));
                continue;
            }
            // If the server refused ASKING, that error is the reason.
            let reply = match (reply, self.asked.take()) {
                (Err(_), Some(Err(refusal))) => Err(refusal),
                (reply, _) => reply,
            };
            self.pending.pop();
            let is_unknown = |error: &RedisError| RetryAction::on(error) == RetryAction::SendSource;
            if first.by_source || !reply.as_ref().is_err_and(is_unknown) {
                return Ok(Some((first.place, reply)));
            }
            let unknown = Pending {
                by_source: true,
                is_sent: false,
                ..first
            };
            self.pending.insert(0, unknown);
        }
        Ok(None)
    }
}
