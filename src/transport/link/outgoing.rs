//! The requests on a link, in the order of their replies.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ticket::Ticket;
use crate::script::{Call, Publish};
use crate::transport::connection_name::ConnectionName;

/// Whose the next reply is.
pub(super) enum Awaited {
    Request(Arc<Ticket>, usize),
    /// ASKING, before the request of this ticket.
    Asking(Arc<Ticket>),
    Name(Arc<ConnectionName>),
    /// No thread needs it.
    Nothing,
}

/// The requests of one thread, as it appends them.
pub(crate) struct Outgoing<'l> {
    pub(super) publish: Publish,
    pub(super) bytes: &'l mut Vec<u8>,
    pub(super) awaited: &'l mut VecDeque<Awaited>,
    pub(super) ticket: &'l Arc<Ticket>,
    pub(super) added: usize,
}

impl Awaited {
    pub(super) fn ticket(&self) -> Option<&Arc<Ticket>> {
        match self {
            Self::Request(ticket, _) | Self::Asking(ticket) => Some(ticket),
            Self::Name(_) | Self::Nothing => None,
        }
    }
}

impl Outgoing<'_> {
    /// Appends ASKING for the next request.
    pub(crate) fn asking(&mut self) {
        self.bytes.extend(redis::cmd("ASKING").get_packed_command());
        self.awaited
            .push_back(Awaited::Asking(Arc::clone(self.ticket)));
    }

    /// Appends the call of a script, by its hash or by its source.
    pub(crate) fn call(&mut self, call: &Call, by_source: bool) {
        match by_source {
            true => call.pack_by_source(self.publish, self.bytes),
            false => call.pack_by_hash(self.publish, self.bytes),
        }
        self.request();
    }

    /// Appends a command in bytes.
    pub(crate) fn command(&mut self, packed: &[u8]) {
        self.bytes.extend_from_slice(packed);
        self.request();
    }

    fn request(&mut self) {
        let request = Awaited::Request(Arc::clone(self.ticket), self.added);
        self.awaited.push_back(request);
        self.added += 1;
    }
}
