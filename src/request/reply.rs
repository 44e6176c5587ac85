//! What a request brings: a reply or none, and the copies that may still be executed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::base::clock::Moment;
use crate::error::Error;
use crate::script::Call;
use crate::transport::connection::Connection;
use crate::transport::server::Server;

/// The number of connections that are kept because a request on them has no reply.
const KEPT: usize = 3;

/// The longest time to send a compensation. The system's buffer has room for it, or it is not sent.
const COMPENSATION_TIMEOUT: Duration = Duration::from_millis(10);

/// A clear reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) reply: Value,
    /// The moment before the request was sent. Leases count from here.
    pub(crate) asked: Moment,
    /// The number of replicas that have the lock, if they are too few.
    pub(crate) unreplicated: Option<u32>,
    /// Earlier copies of the request.
    pub(crate) lost_copies: LostCopies,
}

/// No clear reply, for the reason in `error`.
#[derive(Debug)]
pub(crate) struct NoReply {
    pub(crate) error: Error,
    pub(crate) lost_copies: LostCopies,
}

/// Copies of a request that were sent and got no clear reply.
#[derive(Debug, Default)]
pub(crate) struct LostCopies {
    /// Their number. Each may have been executed, or may be executed later.
    pub(super) copies: u32,
    /// The connections on which whole copies were sent.
    unanswered: Vec<Unanswered>,
    /// The server that the first was sent to.
    server: Option<Arc<Server>>,
    reached_another_server: bool,
}

/// A connection on which requests were sent that have no reply. These requests share it. `None`
/// inside: a send has failed, and nothing more can be sent.
#[derive(Clone, Debug)]
pub(super) struct Unanswered(Rc<RefCell<Option<Box<Connection>>>>);

impl From<Box<Connection>> for Unanswered {
    fn from(connection: Box<Connection>) -> Self {
        Self(Rc::new(RefCell::new(Some(connection))))
    }
}

impl Unanswered {
    /// Sends `call` after the requests. After a failure nothing more is sent: the server would take
    /// it for the rest of what was sent in part.
    fn compensate(&self, call: &Call) {
        let mut open = self.0.borrow_mut();
        let sent = open.as_mut().map(|connection| {
            connection.set_deadline(Moment::now().after(COMPENSATION_TIMEOUT));
            connection.send_packed(|publish, packed| call.pack_by_source(publish, packed))
        });
        if matches!(sent, Some(Err(_))) {
            *open = None;
        }
    }
}

impl From<Error> for NoReply {
    /// For a request that was never sent.
    fn from(error: Error) -> Self {
        Self {
            error,
            lost_copies: LostCopies::default(),
        }
    }
}

/// The lost copies of a request, with or without a reply.
pub(crate) fn lost_copies(result: &Result<Reply, NoReply>) -> &LostCopies {
    match result {
        Ok(reply) => &reply.lost_copies,
        Err(no_reply) => &no_reply.lost_copies,
    }
}

impl LostCopies {
    /// Whether there is a lost copy.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.copies > 0
    }

    /// Whether a copy was sent to another server than the one that replied, as before a failover.
    /// What that copy did may be unknown to the server that replied.
    pub(crate) fn reached_another_server(&self) -> bool {
        self.reached_another_server
    }

    /// Records the server that a copy was sent to, with or without a reply.
    pub(super) fn reached(&mut self, server: &Server) {
        let first = self.server.as_ref();
        self.reached_another_server |= first.is_some_and(|first| first.name() != server.name());
    }

    /// Sends `call` after every lost copy, on the same connection. A server that executes the copy
    /// late executes `call` right after it.
    pub(crate) fn compensate(self, call: &Call) {
        for unanswered in self.unanswered {
            unanswered.compensate(call);
        }
    }

    /// Records a copy that got no clear reply, and the connection if all of it was sent.
    pub(super) fn lost(&mut self, server: &Arc<Server>, unanswered: Option<Unanswered>) {
        self.copies += 1;
        self.reached(server);
        self.server.get_or_insert_with(|| Arc::clone(server));
        self.unanswered.extend(unanswered);
        if self.unanswered.len() > KEPT {
            self.unanswered.remove(0);
        }
    }
}
