//! One request that is under way, of several to different servers.

use std::time::Duration;

use redis::{RedisResult, Value};

use super::advice::Advice;
use super::pool::Slot;
use super::server::Server;
use super::wire::Wire;
use crate::clock::Moment;
use crate::script::Call;

/// How long a reply is waited for before the next server's is looked at.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(1);
pub(super) const LONGEST_LOOK: Duration = Duration::from_millis(16);

/// A request that is under way.
pub(super) struct Exchange<'s> {
    pub(super) place: usize,
    pub(super) server: &'s Server,
    pub(super) slot: Slot<'s>,
    pub(super) wire: Wire,
    pub(super) asked: Moment,
    pub(super) by_source: bool,
    /// A part of a request went out, and nothing may follow it.
    pub(super) torn: bool,
}

impl Exchange<'_> {
    /// The reply, if it is there in `time`. A server that does not know the script is sent it.
    pub(super) fn receive(&mut self, call: &Call, time: Duration) -> Option<RedisResult<Value>> {
        self.wire.give(time);
        let error = match self.wire.receive() {
            Err(error) => error,
            reply => return Some(reply),
        };
        if error.is_timeout() {
            return None;
        }
        if Advice::on(&error) != Advice::SendSource || self.by_source {
            return Some(Err(error));
        }
        self.by_source = true;
        self.wire.give(LONGEST_LOOK);
        match self.wire.send(&call.by_source(self.wire.publish())) {
            Ok(()) => None,
            Err(error) => {
                self.torn = true;
                Some(Err(error))
            }
        }
    }
}
