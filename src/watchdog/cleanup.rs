//! What the watchdog does besides renewals: it writes counts that are unknown in Redis, and
//! releases orphans. It retries both until Redis replies. Neither delays a renewal.

use std::sync::Arc;

use super::thread::{WatchdogThread, guarded};
use super::{HoldId, Orphan, Renew};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::script::{self, Call, Count, Verdict};
use crate::transport::retry_action::RetryAction;

impl WatchdogThread {
    /// Writes the counts that are unknown in Redis. Ignores failures, because the targets ask for
    /// another attempt.
    pub(super) fn write_counts(&mut self, due: &[(HoldId, Arc<dyn Renew>)], until: Moment) {
        let now = Moment::now();
        let counts: Vec<(&Arc<dyn Renew>, Count)> = due
            .iter()
            .filter_map(|(_, target)| Some((target, guarded(|| target.count_to_write(now))??)))
            .collect();
        let requests: Vec<(&LockKey, Call)> = counts
            .iter()
            .map(|(_, count)| (&count.key, count.call()))
            .collect();
        let replies = self.batch_client.request_by_source(requests, until);
        for ((target, count), (reply, _)) in counts.iter().zip(replies) {
            let verdict = reply.and_then(|reply| script::verdict(&reply));
            if matches!(verdict, Ok(Verdict::Done)) {
                guarded(|| target.count_written(&count.owner));
            }
        }
    }

    /// Releases orphans. All requests are sent together. After renewals, orphans on a server that
    /// does not reply are postponed, because the next attempt there belongs to its renewals.
    pub(super) fn release_orphans(
        &mut self,
        orphans: Vec<Orphan>,
        after_renewals: bool,
        until: Moment,
    ) {
        let (now, later): (Vec<_>, Vec<_>) = orphans
            .into_iter()
            .partition(|orphan| !after_renewals || !self.batch_client.is_unresponsive(&orphan.key));
        later.into_iter().for_each(|orphan| self.postpone(orphan));
        let requests: Vec<(&LockKey, Call)> = now
            .iter()
            .map(|orphan| (&orphan.key, script::release(&orphan.key, &orphan.owner)))
            .collect();
        let replies = self.batch_client.request_by_source(requests, until);
        for (orphan, (reply, _)) in now.into_iter().zip(replies) {
            match reply {
                Ok(_) => {}
                Err(error) if RetryAction::on(&error) == RetryAction::WrongType => {}
                Err(_) => self.postpone(orphan),
            }
        }
    }

    pub(super) fn postpone(&self, mut orphan: Orphan) {
        if orphan.until.is_past() {
            return;
        }
        orphan.due = Moment::now().after(orphan.pauses.next());
        self.shared.state.lock().orphans.push(orphan);
    }
}
