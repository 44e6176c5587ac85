//! The queries of a grant: commands that Redis executes only while it is held.

use std::time::Duration;

use parking_lot::MutexGuard;

use super::{Grant, Hold};
use crate::error::Result;

/// A query that is under way. One follows another: the script executes none whose number is not
/// greater than that of the last one.
///
/// As long as one may still be executed, the grant has no other hold: it is released after this one,
/// and with its owner id nothing is executed any more.
#[derive(Debug)]
pub(crate) struct Query<'g> {
    pub(crate) grant: &'g Grant,
    pub(crate) number: u64,
    /// An earlier one may still be executed.
    pub(crate) follows_unclear: bool,
    is_unclear: bool,
    _turn: MutexGuard<'g, u64>,
}

impl Hold {
    /// Begins a query on the grant of this hold, if those before it end until `time` is over.
    pub(crate) fn begin_query<'g>(
        &self,
        grant: &'g Grant,
        time: Duration,
    ) -> Result<Option<Query<'g>>> {
        let Some(mut last) = grant.last_query.try_lock_for(time) else {
            return Ok(None);
        };
        let mut state = grant.state.lock();
        // The hold may have got another grant after a wait on a condition.
        if !std::ptr::eq(&raw const *self.unless_ended()?.grant, grant) {
            return Err(self.not_held());
        }
        *last += 1;
        Ok(Some(Query {
            grant,
            number: *last,
            follows_unclear: std::mem::replace(&mut state.has_unclear_query, true),
            is_unclear: false,
            _turn: last,
        }))
    }
}

impl Query<'_> {
    /// There is no clear reply.
    pub(crate) fn end_unclear(mut self) {
        self.is_unclear = true;
    }
}

impl Drop for Query<'_> {
    fn drop(&mut self) {
        let is_unclear = self.follows_unclear || self.is_unclear;
        self.grant.state.lock().has_unclear_query = is_unclear;
    }
}
