//! What becomes of a question to Redis.

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

/// Requests without a reply whose client are kept; of more, only the last.
const KEPT: usize = 3;

/// What a request may take that nobody waits for: the system's buffer has room for it, or has not.
const FOLLOW_UP: Duration = Duration::from_millis(10);

/// A clear answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) reply: Value,
    /// Before the request was sent that this answers: leases count from here.
    pub(crate) asked: Moment,
    /// So many replicas have the lock, which are too few.
    pub(crate) unreplicated: Option<u32>,
    /// Earlier copies of the request.
    pub(crate) lost_copies: LostCopies,
}

/// No clear answer, for the reason that `error` tells.
#[derive(Debug)]
pub(crate) struct NoReply {
    pub(crate) error: Error,
    pub(crate) lost_copies: LostCopies,
}

/// Copies of a request that were sent and got no clear answer.
#[derive(Debug, Default)]
pub(crate) struct LostCopies {
    /// How many. Each may be done already, or be done later.
    pub(super) copies: u32,
    /// Where a whole copy went out and nothing came back: the copy may be done at any time.
    unanswered: Vec<Unanswered>,
    /// The server that the first was sent to.
    server: Option<Arc<Server>>,
    elsewhere: bool,
}

/// A connection on which requests were sent that have no reply. These requests share it. `None`
/// inside: a send has failed, and nothing more can be sent.
#[derive(Clone, Debug)]
pub(super) struct Unanswered(Rc<RefCell<Option<Connection>>>);

impl From<Connection> for Unanswered {
    fn from(connection: Connection) -> Self {
        Self(Rc::new(RefCell::new(Some(connection))))
    }
}

impl Unanswered {
    /// Sends `call` behind the requests. After a failure nothing is sent any more: the server would
    /// take it for the rest of what was sent in part.
    fn compensate(&self, call: &Call) {
        let mut open = self.0.borrow_mut();
        let sent = open.as_mut().map(|connection| {
            connection.set_time_limit(FOLLOW_UP);
            connection.send(&call.by_source(connection.publish()))
        });
        if matches!(sent, Some(Err(_))) {
            *open = None;
        }
    }
}

impl From<Error> for NoReply {
    /// Of a request that was never sent.
    fn from(error: Error) -> Self {
        Self {
            error,
            lost_copies: LostCopies::default(),
        }
    }
}

/// The copies in vain, whatever came of the question.
pub(crate) fn lost_copies(result: &Result<Reply, NoReply>) -> &LostCopies {
    match result {
        Ok(answer) => &answer.lost_copies,
        Err(no_reply) => &no_reply.lost_copies,
    }
}

impl LostCopies {
    /// There is one.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.copies > 0
    }

    /// One went to another server than the one that answered, as before a failover. What it did may be
    /// unknown there; and what is unknown there, it need not have done.
    pub(crate) fn reached_another_server(&self) -> bool {
        self.elsewhere
    }

    /// Where a copy went, answered or not.
    pub(super) fn goes_to(&mut self, server: &Server) {
        let first = self.server.as_ref();
        self.elsewhere |= first.is_some_and(|first| first.name() != server.name());
    }

    /// Takes the copies of an earlier request to these.
    pub(crate) fn add(&mut self, earlier: Self) {
        self.copies += earlier.copies;
        self.unanswered.extend(earlier.unanswered);
        self.elsewhere |= earlier.elsewhere;
    }

    /// Sends `call` behind every unanswered copy. A server that has not read the copy yet does it
    /// when it reads on, however much later, and does this right after it.
    pub(crate) fn compensate(self, call: &Call) {
        for unanswered in self.unanswered {
            unanswered.compensate(call);
        }
    }

    pub(super) fn lost(&mut self, server: &Arc<Server>, unanswered: Option<Unanswered>) {
        self.copies += 1;
        self.goes_to(server);
        self.server.get_or_insert_with(|| Arc::clone(server));
        self.unanswered.extend(unanswered);
        if self.unanswered.len() > KEPT {
            self.unanswered.remove(0);
        }
    }
}
