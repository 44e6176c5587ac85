//! The number of permits of a semaphore.

use super::inspect::request_once;
use super::parts::Parts;
use crate::error::Result;
use crate::protocol::{
    PermitsChange, change_permits, count_permits, permits_changed, permits_counted,
};

impl Parts {
    /// Changes the number of permits. False if the semaphore exists and was not to be changed.
    pub(crate) fn change_permits(&self, change: PermitsChange) -> Result<bool> {
        let core = self.check_open()?;
        let mut is_changed = false;
        for part in self.list.iter() {
            let call = change_permits(&part.key, change);
            let reply = request_once(core, &part.key, call, &core.budget_for_a_reply())?;
            let changed = permits_changed(&reply);
            is_changed = changed.map_err(|error| core.redis.refusal(&part.key, error))?;
        }
        Ok(is_changed)
    }

    /// The number of available permits, and of leased ones.
    pub(crate) fn count_permits(&self) -> Result<(i64, i64)> {
        let core = self.check_open()?;
        let mut counts = (0, 0);
        for part in self.list.iter() {
            let call = count_permits(&part.key);
            let reply = request_once(core, &part.key, call, &core.budget_for_a_reply())?;
            let counted = permits_counted(&reply);
            counts = counted.map_err(|error| core.redis.refusal(&part.key, error))?;
        }
        Ok(counts)
    }
}
