//! Confirmations: so that a holder learns within about a second that its lock was deleted.
//!
//! While a thread holds a lock, the watchdog asks Redis once in each interval whether it still has
//! the lock. A confirmation is a renewal for 0 ms: the script only reads, so it is sent to no
//! replica and is written to no file of the server. The cost does not depend on how many locks are
//! held: in each interval, the watchdog sends at most one script call to each server, with the
//! locks that have been unconfirmed for the longest time. So the more locks there are, the more
//! rarely each is confirmed, and at the latest by its renewal, or after two thirds of its lease.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::thread::{BATCH, RenewalRequest, WatchdogThread};
use super::{Renew, Schedule, Shared, TargetId, Watchdog, guarded};
use crate::base::{LockKey, Moment};

impl WatchdogThread {
    /// Confirms the targets that are unconfirmed for the longest time, if one is due. Handles at
    /// most as many as the calls to all servers can have.
    pub(super) fn confirm(&mut self, until: Moment) {
        let every = self.shared.confirm_every;
        let now = Moment::now();
        let most = BATCH * self.redis.topology.last_known_servers().len().max(1);
        // Locks that would be due soon come with those that are.
        let latest = now.before(every / 2);
        let unconfirmed = {
            let state = self.shared.state.lock();
            if until <= now || self.shared.next_confirmation(&state) > now {
                return;
            }
            state.registry.unconfirmed(latest, most)
        };
        let mut by_server: HashMap<Arc<str>, Vec<RenewalRequest>> = HashMap::new();
        for (id, target) in unconfirmed {
            match guarded(|| target.confirmation(latest)).flatten() {
                Some(renewal) => {
                    let server = self.redis.topology.name(target.key());
                    let of_server = by_server.entry(server).or_default();
                    of_server.push(RenewalRequest {
                        id,
                        permits: target.permits(),
                        target,
                        renewal,
                    });
                }
                // Its schedule has changed. After a panic it would be due again at once.
                None => self.count_from(latest, id),
            }
        }
        if by_server.is_empty() {
            return;
        }
        self.shared.state.lock().confirm_from = now.after(every);
        let calls = by_server.into_values();
        let calls: Vec<_> = calls
            .filter_map(|requests| self.in_one_call(requests, now))
            .collect();
        let batches: Vec<_> = calls.iter().map(|call| call.iter().collect()).collect();
        // A confirmation that fails is no failed renewal: the locks are confirmed later.
        for (_, batch) in self.send(&batches, until).1 {
            batch.iter().for_each(|one| self.count_from(now, one.id));
        }
    }

    /// Those of the requests to one server that one script call can have. The others come before
    /// them in a later interval. `None` if the server did not reply lately: then it is asked after
    /// the pauses of its circuit breaker.
    fn in_one_call(
        &self,
        requests: Vec<RenewalRequest>,
        now: Moment,
    ) -> Option<Vec<RenewalRequest>> {
        // Once for all of them: after a pause, the circuit breaker lets one caller through.
        if self.redis.skips(requests[0].target.key()) {
            requests.iter().for_each(|one| self.count_from(now, one.id));
            return None;
        }
        let mut call = Vec::with_capacity(requests.len().min(BATCH));
        for one in requests {
            if self.fits_into(&call, &one) {
                call.push(one);
            }
        }
        Some(call)
    }

    /// Whether this renewal can be in a script call with these others.
    pub(super) fn fits_into<T>(&self, call: &[T], one: &RenewalRequest) -> bool
    where
        T: Borrow<RenewalRequest>,
    {
        let all = call.iter().map(Borrow::borrow);
        all.clone().next().is_none_or(|first: &RenewalRequest| {
            all.map(|other| other.permits).sum::<usize>() + one.permits <= BATCH
                && first.renewal.call.is_like(&one.renewal.call)
                && self.slot_of(first) == self.slot_of(one)
        })
    }

    /// Reads the schedule of a target. Its time without a confirmation counts from `earliest` on,
    /// as if it were confirmed then.
    fn count_from(&self, earliest: Moment, id: TargetId) {
        self.shared.reschedule_as(id, |schedule| Schedule {
            unconfirmed: schedule.unconfirmed.max(earliest),
            ..schedule
        });
    }
}

impl Watchdog {
    /// Makes the thread confirm the locks with these keys at once.
    pub(crate) fn confirmer(&self) -> impl Fn(&HashSet<&str>) + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move |locks| shared.confirm_now(|key| locks.contains(&**key.key()))
    }
}

impl Shared {
    /// All targets.
    pub(super) fn targets(&self) -> Vec<(TargetId, Arc<dyn Renew>)> {
        let mut state = self.state.lock();
        Self::read_noted(&mut state);
        state.registry.all()
    }

    /// Makes the thread confirm these locks at once.
    pub(super) fn confirm_now(&self, is_meant: impl Fn(&LockKey) -> bool) {
        let mut targets = self.targets();
        targets.retain(|(_, target)| is_meant(target.key()));
        for (id, target) in targets {
            target.confirm_now();
            self.reschedule(id);
        }
    }
}
