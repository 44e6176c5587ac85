//! The requests on a link, in the order of their replies.

use std::sync::Arc;

use super::LinkState;
use super::pending::Pending;
use crate::script::{Call, Publish};

/// What a reply is to.
pub(super) struct Awaited {
    pub(super) pending: Arc<Pending>,
    pub(super) index: usize,
    /// The reply is to ASKING, before the request.
    pub(super) is_asking: bool,
}

/// The requests of one thread, as it appends them.
pub(crate) struct Outgoing<'l> {
    pub(super) publish: Publish,
    pub(super) state: &'l mut LinkState,
    pub(super) pending: &'l Arc<Pending>,
    pub(super) added: usize,
}

impl Outgoing<'_> {
    /// Appends ASKING for the next request.
    pub(crate) fn asking(&mut self) {
        let asking = redis::cmd("ASKING").get_packed_command();
        self.state.unwritten.extend(asking);
        self.awaits(true);
    }

    /// Appends the call of a script, by its hash or by its source.
    pub(crate) fn call(&mut self, call: &Call, by_source: bool) {
        call.pack(by_source, self.publish, &mut self.state.unwritten);
        self.request();
    }

    /// Appends this number of commands in bytes. Without any, the bytes are a command whose replies
    /// are [pushes](super::Link::next_push).
    pub(crate) fn commands(&mut self, commands: usize, packed: &[u8]) {
        self.state.unwritten.extend_from_slice(packed);
        (0..commands).for_each(|_| self.request());
    }

    fn request(&mut self) {
        self.awaits(false);
        self.added += 1;
    }

    fn awaits(&mut self, is_asking: bool) {
        self.state.awaited.push_back(Awaited {
            pending: Arc::clone(self.pending),
            index: self.added,
            is_asking,
        });
    }
}
