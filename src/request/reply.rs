//! What a request brings: a reply or none, and the copies that may still be executed.
//!
//! A request may be executed twice. If the second copy of a release finds no field, the release
//! counts as done, provided that the reply comes from the server that got the first copy. A reply
//! from another server does not show what the first copy did.

use std::sync::Arc;

use redis::Value;

use crate::base::Moment;
use crate::error::Error;
use crate::script::Call;
use crate::transport::link::{Outcome, SentCopy};
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// The number of lost copies of a request that are followed.
const KEPT: usize = 3;

/// A clear reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) reply: Value,
    /// The moment before the request was sent. Leases count from here.
    pub(crate) asked: Moment,
    /// Earlier copies of the request.
    pub(crate) lost_copies: LostCopies,
}

/// No clear reply, for the reason in `error`.
#[derive(Debug)]
pub(crate) struct NoReply {
    pub(crate) error: Box<Error>,
    pub(crate) lost_copies: LostCopies,
}

/// Copies of a request that were sent and got no clear reply.
#[derive(Debug, Default)]
pub(crate) struct LostCopies {
    /// Their number. Each may have been executed, or may be executed later.
    pub(super) copies: u32,
    /// The newest of them.
    followed: Vec<Lost>,
    /// The server that the first was sent to.
    server: Option<Arc<Server>>,
    reached_another_server: bool,
}

/// A copy whose reply may arrive late.
#[derive(Debug)]
struct Lost {
    copy: SentCopy,
    call: Call,
}

impl From<Error> for NoReply {
    /// For a request that was never sent.
    fn from(error: Error) -> Self {
        Self {
            error: error.into(),
            lost_copies: LostCopies::default(),
        }
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

    /// Sends `call` after every lost copy, on the same connection, and without a wait. A server
    /// that executes the copy late executes `call` right after it. A copy whose late reply says
    /// that it did nothing is not followed.
    pub(crate) fn compensate(&self, call: &Call) {
        let followed = self.followed.iter().filter(|lost| !lost.did_nothing());
        followed.for_each(|lost| lost.copy.follow(call));
    }

    /// Forgets the copies whose late replies say that they did nothing.
    pub(super) fn settle(&mut self) {
        let before = self.followed.len();
        self.followed.retain(|lost| !lost.did_nothing());
        let settled = before - self.followed.len();
        self.copies -= u32::try_from(settled).unwrap_or(0);
    }

    /// Records a copy that got no clear reply, and its place on the link if all of it was sent.
    pub(super) fn lost(&mut self, server: &Arc<Server>, copy: Option<(SentCopy, &Call)>) {
        self.copies += 1;
        self.reached(server);
        self.server.get_or_insert_with(|| Arc::clone(server));
        self.followed.extend(copy.map(|(copy, call)| Lost {
            copy,
            call: call.clone(),
        }));
        if self.followed.len() > KEPT {
            self.followed.remove(0);
        }
    }
}

impl Lost {
    /// Whether its late reply says that the server did not execute it, or refused it.
    fn did_nothing(&self) -> bool {
        match self.copy.outcome() {
            Some(Outcome::Replied(Ok(reply), _)) => {
                self.call.is_acquiring() && !self.call.has_taken(&reply)
            }
            Some(Outcome::Replied(Err(error), _)) => RetryAction::is_refusal(&error),
            Some(Outcome::Broken(_)) | None => false,
        }
    }
}
