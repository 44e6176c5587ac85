//! The queries of a grant: commands that Redis executes only while it is held.

use std::time::Duration;

use parking_lot::MutexGuard;

use super::{Grant, Hold};
use crate::error::Result;

/// A query that is under way. One follows another, because the script refuses each whose number is
/// not greater than that of the last one. So this has the mutex of the turn while the query is sent
/// and executed. The mutex protects no data, and the next query waits for it with a deadline.
///
/// While one may still be executed, the grant gets no other hold: it is released after this one,
/// and then nothing is executed with its owner id any more.
pub(crate) struct Query<'g> {
    pub(crate) grant: &'g Grant,
    pub(crate) number: u64,
    /// An earlier one may still be executed.
    pub(crate) follows_unclear: bool,
    _turn: MutexGuard<'g, ()>,
}

impl Hold {
    /// Begins a query on the grant of this hold, if the one before it ends in `time`.
    pub(crate) fn begin_query<'g>(
        &self,
        grant: &'g Grant,
        time: Duration,
    ) -> Result<Option<Query<'g>>> {
        let Some(turn) = grant.query_turn.try_lock_for(time) else {
            return Ok(None);
        };
        let mut state = grant.state.lock();
        // The hold may have got another grant after a wait on a condition.
        if !std::ptr::eq(&raw const *self.unless_ended()?.grant, grant) {
            return Err(self.not_held());
        }
        state.queries += 1;
        Ok(Some(Query {
            grant,
            number: state.queries,
            follows_unclear: std::mem::replace(&mut state.has_unclear_query, true),
            _turn: turn,
        }))
    }
}

impl Query<'_> {
    /// It is known whether it was executed. Without this call it may be executed later.
    pub(crate) fn end(self) {
        self.grant.state.lock().has_unclear_query = self.follows_unclear;
    }
}
