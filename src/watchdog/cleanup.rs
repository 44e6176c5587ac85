//! What the watchdog does besides renewals: it releases orphans, and retries that until Redis
//! replies. That delays no renewal. When the client ends, it releases the idle grants and the
//! orphans, within one command timeout.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::thread::{ORPHANS_AT_END, WatchdogThread};
use super::{Renew, Watchdog, guarded};
use crate::base::{Backoff, LockKey, Moment};
use crate::protocol::verdict;
use crate::script::Call;
use crate::transport::links::Purpose;
use crate::transport::retry_action::RetryAction;

/// Between attempts to release an orphan.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));

/// A lock that this client may hold in Redis although none of its threads holds it. The watchdog
/// releases it.
#[derive(Clone, Debug)]
pub(super) struct Orphan {
    pub(super) key: LockKey,
    /// The grant that stood for it.
    grant: Option<Arc<dyn Renew>>,
    /// The call that releases the lock.
    call: Call,
    pub(super) due: Moment,
    pauses: Backoff,
    /// When its lease is over, so that there is nothing left to release.
    pub(super) until: Moment,
}

impl Orphan {
    pub(super) fn new(key: LockKey, call: Call, until: Moment) -> Self {
        Self {
            key,
            grant: None,
            call,
            due: Moment::now(),
            pauses: BACKOFF,
            until,
        }
    }

    /// What a grant that has ended leaves in Redis.
    pub(super) fn of(grant: Arc<dyn Renew>, call: Call) -> Self {
        Self {
            grant: Some(Arc::clone(&grant)),
            ..Self::new(grant.key().clone(), call, grant.lease_ends())
        }
    }
}

/// The orphans in the order in which the thread has to do something for them.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    by_time: BTreeMap<(Moment, u64), Orphan>,
    /// The number of orphans so far: those of one moment come in the order of their insertion.
    count: u64,
}

impl Orphans {
    pub(super) fn push(&mut self, orphan: Orphan) {
        self.count += 1;
        // At the end of its lease it is dropped.
        let time = orphan.due.min(orphan.until);
        self.by_time.insert((time, self.count), orphan);
    }

    /// When the thread next has something to do.
    pub(super) fn next(&self) -> Option<Moment> {
        self.by_time.first_key_value().map(|(&(time, _), _)| time)
    }

    /// Removes those that are due at `now`, but at most `most`, and those before them whose leases
    /// are over. Returns both.
    pub(super) fn take_due(&mut self, now: Moment, most: usize) -> (Vec<Orphan>, Vec<Orphan>) {
        let (mut due, mut over) = (Vec::new(), Vec::new());
        while due.len() < most && self.next().is_some_and(|next| next <= now) {
            let Some((_, orphan)) = self.by_time.pop_first() else {
                break;
            };
            match orphan.until <= now {
                true => over.push(orphan),
                false => due.push(orphan),
            }
        }
        (due, over)
    }

    pub(super) fn take_all(&mut self) -> Vec<Orphan> {
        let orphans = std::mem::take(&mut self.by_time);
        orphans.into_values().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Orphan> {
        self.by_time.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_time.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }
}

impl Extend<Orphan> for Orphans {
    fn extend<I: IntoIterator<Item = Orphan>>(&mut self, orphans: I) {
        orphans.into_iter().for_each(|orphan| self.push(orphan));
    }
}

impl Watchdog {
    /// True if the thread releases an orphan of this lock, or will.
    pub(crate) fn is_releasing(&self, key: &LockKey) -> bool {
        let state = self.shared.state.lock();
        let orphans = state.orphans.iter().map(|orphan| &orphan.key);
        let mut keys = orphans.chain(&state.orphans_in_pass);
        keys.any(|orphan| orphan.key() == key.key())
    }
}

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
            .partition(|orphan| !after_renewals || !self.redis.may_not_reply(&orphan.key));
        later.into_iter().for_each(|orphan| self.postpone(orphan));
        let requests: Vec<(&LockKey, Call)> = now
            .iter()
            .map(|orphan| (&orphan.key, orphan.call.clone()))
            .collect();
        let replies = self.redis.request_many(Purpose::Watchdog, requests, until);
        for (orphan, (reply, _)) in now.into_iter().zip(replies) {
            match reply {
                Ok(reply) => self.note_released(&orphan, &reply),
                Err(error) if RetryAction::on(&error) == RetryAction::WrongType => {}
                Err(_) => self.postpone(orphan),
            }
        }
    }

    /// Looks after the line later if the script has called a client, and tells the grant.
    fn note_released(&self, orphan: &Orphan, reply: &Value) {
        let Ok(verdict) = verdict(reply) else { return };
        if verdict.has_called() {
            self.shared.called(&orphan.key);
        }
        if let Some(grant) = &orphan.grant {
            guarded(|| grant.released(self.subscriber.without_own(&orphan.key, verdict)));
        }
    }

    /// Releases what a client that ends has in Redis without a hold: the idle grants and the
    /// orphans, within one command timeout. What gets no reply is sent once more.
    pub(super) fn release_at_end(&mut self) {
        let targets = self.shared.state.lock().registry.take_all();
        let idle = targets.iter().filter_map(|target| {
            let release = target.end_idle_grant()?;
            Some(Orphan::of(Arc::clone(target), release))
        });
        let idle: Vec<Orphan> = idle.collect();
        self.shared.state.lock().orphans.extend(idle);
        let until = Moment::now().after(self.command_timeout);
        // The first attempt may only show that the connection was cut while it was idle. The second
        // one has a new connection, and no pass follows that would repeat the requests.
        for _ in 0..2 {
            let mut orphans = self.shared.state.lock().orphans.take_all();
            while !orphans.is_empty() && !until.is_past() {
                let later = orphans.split_off(orphans.len().min(ORPHANS_AT_END));
                let first = std::mem::replace(&mut orphans, later);
                self.release_orphans(first, false, until);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script;

    #[test]
    fn orphans_are_taken_in_the_order_in_which_they_are_due() {
        let base = Moment::now();
        let at = |millis| base.after(Duration::from_millis(millis));
        let mut orphans = Orphans::default();
        let orphan = |name, due, until| {
            let key = LockKey::new("", name);
            let call = script::leave_line(&key, "place", true);
            let mut orphan = Orphan::new(key, call, at(until));
            orphan.due = at(due);
            orphan
        };
        orphans.extend([
            orphan("later", 9, 99),
            orphan("over", 20, 3),
            orphan("second", 5, 99),
            orphan("third", 5, 99),
            orphan("first", 4, 99),
        ]);
        let names = |orphans: &[Orphan]| -> Vec<String> {
            let names = orphans.iter().map(|orphan| orphan.key.name().to_owned());
            names.collect()
        };
        assert_eq!(orphans.next(), Some(at(3)));
        let (due, over) = orphans.take_due(at(6), 2);
        assert_eq!(names(&due), ["first", "second"]);
        assert_eq!(names(&over), ["over"]);
        let (due, over) = orphans.take_due(at(6), 2);
        assert_eq!((names(&due), over.len()), (vec!["third".to_owned()], 0));
        assert_eq!((orphans.next(), orphans.len()), (Some(at(9)), 1));
    }
}
