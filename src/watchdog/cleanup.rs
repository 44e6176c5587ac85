//! What the watchdog does besides renewals: it releases orphans, and retries that until Redis
//! replies. That delays no renewal. When the client ends, it releases the idle grants.

use super::Orphan;
use super::thread::WatchdogThread;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::script::Call;
use crate::transport::retry_action::RetryAction;

impl WatchdogThread {
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
            .map(|orphan| (&orphan.key, orphan.call.clone()))
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

    /// Releases the idle grants of a client that ends, all together and once.
    pub(super) fn release_idle_grants(&mut self) {
        let targets = self.shared.state.lock().registry.take_all();
        let idle: Vec<(LockKey, Call)> = targets
            .iter()
            .filter_map(|target| Some((target.key().clone(), target.end_idle_grant()?)))
            .collect();
        let requests = idle.iter().map(|(key, call)| (key, call.clone())).collect();
        let until = Moment::now().after(self.command_timeout);
        self.batch_client.request_by_source(requests, until);
    }

    pub(super) fn postpone(&self, mut orphan: Orphan) {
        if orphan.until.is_past() {
            return;
        }
        orphan.due = Moment::now().after(orphan.pauses.next());
        self.shared.state.lock().orphans.push(orphan);
    }
}
