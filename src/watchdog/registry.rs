//! When each target of the watchdog is due. Pure: no clock, no I/O, no mutex.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use crate::base::Moment;
use crate::lease::left_at_renewal;

/// When the watchdog has to handle a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) due: Moment,
    /// Since when a thread relies on the target without a reply of Redis; `Moment::NEVER` if none
    /// does. See [`confirm`](super::confirm).
    pub(crate) unconfirmed: Moment,
    /// When the lease is over if it is not renewed.
    pub(crate) ends: Moment,
    /// The length of the lease that is renewed; `None` if the lease is not renewed.
    pub(crate) lease: Option<Duration>,
    /// The pause after a failed renewal.
    pub(crate) retry: Duration,
}

impl Schedule {
    /// Postpones this schedule to `earliest`, but not beyond the end of the lease.
    pub(crate) fn not_before(self, earliest: Moment) -> Self {
        Self {
            due: self.due.max(earliest).min(self.ends),
            ..self
        }
    }

    /// True if no thread relies on the target, and it is not renewed.
    fn is_unused(&self) -> bool {
        self.unconfirmed == Moment::NEVER && self.lease.is_none()
    }

    /// The schedule of what has both schedules: the earlier moment of each.
    pub(crate) fn earlier(self, other: Self) -> Self {
        Self {
            due: self.due.min(other.due),
            unconfirmed: self.unconfirmed.min(other.unconfirmed),
            ends: self.ends.min(other.ends),
            lease: self.lease.into_iter().chain(other.lease).min(),
            retry: self.retry.min(other.retry),
        }
    }
}

/// How early a renewal may be made, so that many are sent together: 1/32 of the lease, at most one
/// second.
pub(crate) fn slack(lease: Duration) -> Duration {
    (lease / 32).min(Duration::from_secs(1))
}

/// Identifies one target. Never used again, unlike the name of a lock, which can have another grant
/// later.
pub(crate) type TargetId = u64;

/// An id that was never used before.
pub(crate) fn next_target_id() -> TargetId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The most unused targets that are handled in one pass. A program may drop many guards at once,
/// and while their releases are prepared, the leases of others run.
const UNUSED: usize = 1_000;

type ByTime = BTreeSet<(Moment, TargetId)>;

#[derive(Debug)]
pub(crate) struct Registry<T> {
    targets: HashMap<TargetId, Target<T>>,
    used_by_due: ByTime,
    /// Targets that no thread relies on, and that are not renewed: idle grants.
    unused_by_due: ByTime,
    /// The targets that threads rely on, first the one that is unconfirmed for the longest time.
    by_unconfirmed: ByTime,
}

#[derive(Debug)]
struct Target<T> {
    target: T,
    /// `None` until it is read for the first time.
    schedule: Option<Schedule>,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self {
            targets: HashMap::new(),
            used_by_due: ByTime::new(),
            unused_by_due: ByTime::new(),
            by_unconfirmed: ByTime::new(),
        }
    }
}

impl<T: Clone> Registry<T> {
    /// Adds a target without a schedule, which is not due.
    pub(crate) fn insert(&mut self, id: TargetId, target: T) {
        let schedule = None;
        self.targets.insert(id, Target { target, schedule });
    }

    /// Adds a target with this schedule.
    #[cfg(test)]
    pub(crate) fn add(&mut self, id: TargetId, target: T, schedule: Schedule) {
        self.insert(id, target);
        self.reschedule(id, |_| schedule);
    }

    /// Stores the schedule that `ask` reads from the target, and returns it. `None` if the target
    /// is not registered.
    pub(crate) fn reschedule(
        &mut self,
        id: TargetId,
        ask: impl FnOnce(&T) -> Schedule,
    ) -> Option<Schedule> {
        let entry = self.targets.get_mut(&id)?;
        let schedule = ask(&entry.target);
        if let Some(old) = entry.schedule.replace(schedule) {
            self.leave(id, old);
        }
        self.enter(id, schedule);
        Some(schedule)
    }

    pub(crate) fn remove(&mut self, id: TargetId) -> Option<T> {
        let entry = self.targets.remove(&id)?;
        if let Some(schedule) = entry.schedule {
            self.leave(id, schedule);
        }
        Some(entry.target)
    }

    fn by_due(&mut self, schedule: &Schedule) -> &mut ByTime {
        match schedule.is_unused() {
            true => &mut self.unused_by_due,
            false => &mut self.used_by_due,
        }
    }

    fn enter(&mut self, id: TargetId, schedule: Schedule) {
        self.by_due(&schedule).insert((schedule.due, id));
        if schedule.unconfirmed != Moment::NEVER {
            self.by_unconfirmed.insert((schedule.unconfirmed, id));
        }
    }

    fn leave(&mut self, id: TargetId, schedule: Schedule) {
        self.by_due(&schedule).remove(&(schedule.due, id));
        self.by_unconfirmed.remove(&(schedule.unconfirmed, id));
    }

    /// Removes all targets.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.used_by_due.clear();
        self.unused_by_due.clear();
        self.by_unconfirmed.clear();
        let targets = self.targets.drain();
        targets.map(|(_, entry)| entry.target).collect()
    }

    pub(crate) fn contains(&self, id: TargetId) -> bool {
        self.targets.contains_key(&id)
    }

    /// When the first target is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let first = [&self.used_by_due, &self.unused_by_due].map(|set| set.first());
        first.into_iter().flatten().map(|&(due, _)| due).min()
    }

    /// The targets of this set that are due by `until`, the first one first.
    fn due_by<'a>(
        &'a self,
        set: &'a ByTime,
        until: Moment,
    ) -> impl Iterator<Item = (TargetId, &'a Target<T>)> {
        let due = set.iter().take_while(move |&&(due, _)| due <= until);
        due.map(|&(_, id)| (id, &self.targets[&id]))
    }

    fn used(&self, until: Moment) -> impl Iterator<Item = (TargetId, &Target<T>)> {
        self.due_by(&self.used_by_due, until)
    }

    /// Returns the targets that are due at `now`, and those that would be due within the slack of
    /// the first of them; then the unused ones, but no more than a pass handles. They stay
    /// registered, and can be removed while the caller handles them.
    pub(crate) fn due(&self, now: Moment) -> Vec<(TargetId, T)> {
        let first = self.used(now).next();
        let first = first.and_then(|(_, entry)| entry.schedule);
        let lease = first.and_then(|schedule| schedule.lease);
        let until = now.after(lease.map_or(Duration::ZERO, slack));
        let unused = self.due_by(&self.unused_by_due, until).take(UNUSED);
        let due = self.used(until).chain(unused);
        due.map(|(id, entry)| (id, entry.target.clone())).collect()
    }

    /// All targets whose schedules were read, in the order of their insertion.
    pub(crate) fn all(&self) -> Vec<(TargetId, T)> {
        let all = self.targets.iter();
        let read = all.filter(|(_, entry)| entry.schedule.is_some());
        let mut all: Vec<_> = read
            .map(|(id, entry)| (*id, entry.target.clone()))
            .collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Since when one of the targets is unconfirmed: the longest time of all.
    pub(crate) fn unconfirmed_since(&self) -> Moment {
        let first = self.by_unconfirmed.first();
        first.map_or(Moment::NEVER, |&(since, _)| since)
    }

    /// Returns the `most` targets that are unconfirmed for the longest time, but not those that are
    /// confirmed after `latest`. They stay registered.
    pub(crate) fn unconfirmed(&self, latest: Moment, most: usize) -> Vec<(TargetId, T)> {
        let first = self.by_unconfirmed.iter().take(most);
        first
            .take_while(|&&(since, _)| since <= latest)
            .map(|&(_, id)| (id, self.targets[&id].target.clone()))
            .collect()
    }

    /// The earliest end of a lease after `now`, among the used targets that are due by `until`.
    pub(crate) fn next_end(&self, now: Moment, until: Moment) -> Option<Moment> {
        let ends = self.used(until).filter_map(|(_, entry)| entry.schedule);
        let ends = ends.map(|schedule| schedule.ends);
        ends.filter(|&ends| ends > now).min()
    }

    /// When I/O that begins at `now` has to end: at `latest`, or earlier if another renewed target
    /// needs the time. Each such target allows I/O for half of what is left of its lease at a
    /// renewal, a sixth of the lease, or until it is due if that is later. So a server that hangs
    /// leaves every lease time for more than one attempt.
    pub(crate) fn io_end(&self, now: Moment, latest: Moment) -> Moment {
        let ends = self.used(latest).filter_map(|(_, entry)| {
            let schedule = entry.schedule?;
            let time = left_at_renewal(schedule.lease?) / 2;
            Some(schedule.due.max(now.after(time)))
        });
        ends.fold(latest, Moment::min)
    }
}

#[cfg(test)]
mod tests;
