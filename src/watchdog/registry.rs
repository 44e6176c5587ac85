//! When each target of the watchdog is due. Pure: no clock, no I/O, no mutex.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use crate::base::clock::Moment;

/// When the watchdog has to handle a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) due: Moment,
    /// When the target is confirmed although nothing else is due: see [`confirm`](super::confirm).
    pub(crate) confirm: Moment,
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
            ..self.confirmed_from(earliest)
        }
    }

    /// Postpones only the confirmation.
    pub(crate) fn confirmed_from(self, earliest: Moment) -> Self {
        Self {
            confirm: self.confirm.max(earliest),
            ..self
        }
    }

    /// When the watchdog looks at the target.
    fn first(&self) -> Moment {
        self.due.min(self.confirm)
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

#[derive(Debug)]
pub(crate) struct Registry<T> {
    targets: HashMap<TargetId, Entry<T>>,
    by_due: BTreeSet<(Moment, TargetId)>,
}

#[derive(Debug)]
struct Entry<T> {
    target: T,
    schedule: Schedule,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self {
            targets: HashMap::new(),
            by_due: BTreeSet::new(),
        }
    }
}

impl<T: Clone> Registry<T> {
    /// Returns when something is due for the target.
    pub(crate) fn insert(&mut self, id: TargetId, target: T, schedule: Schedule) -> Moment {
        self.by_due.insert((schedule.first(), id));
        self.targets.insert(id, Entry { target, schedule });
        schedule.first()
    }

    /// Stores the schedule that `ask` reads from the target. Returns when something is due for the
    /// target, or `None` if it is not registered.
    pub(crate) fn reschedule(
        &mut self,
        id: TargetId,
        ask: impl FnOnce(&T) -> Schedule,
    ) -> Option<Moment> {
        let entry = self.targets.get_mut(&id)?;
        let schedule = ask(&entry.target);
        self.by_due.remove(&(entry.schedule.first(), id));
        self.by_due.insert((schedule.first(), id));
        entry.schedule = schedule;
        Some(schedule.first())
    }

    pub(crate) fn remove(&mut self, id: TargetId) -> Option<T> {
        let entry = self.targets.remove(&id)?;
        self.by_due.remove(&(entry.schedule.first(), id));
        Some(entry.target)
    }

    /// Removes all targets.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.by_due.clear();
        let targets = self.targets.drain();
        targets.map(|(_, entry)| entry.target).collect()
    }

    pub(crate) fn contains(&self, id: TargetId) -> bool {
        self.targets.contains_key(&id)
    }

    /// When something is due for the first target.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.by_due.first().map(|&(due, _)| due)
    }

    /// Returns the targets that are due at `now`, and those that would be due within the slack of
    /// the first of them. They stay registered, and can be removed while the caller handles them.
    pub(crate) fn due(&self, now: Moment) -> Vec<(TargetId, T)> {
        let Some(&(first, id)) = self.by_due.first() else {
            return Vec::new();
        };
        if first > now {
            return Vec::new();
        }
        let window = self.targets[&id]
            .schedule
            .lease
            .map_or(Duration::ZERO, slack);
        let until = now.after(window);
        self.by_due
            .iter()
            .take_while(|&&(due, _)| due <= until)
            .map(|&(_, id)| (id, self.targets[&id].target.clone()))
            .collect()
    }

    /// When the first target is due for something else than a confirmation.
    #[cfg(feature = "testing")]
    pub(crate) fn next_step(&self) -> Option<Moment> {
        self.targets.values().map(|entry| entry.schedule.due).min()
    }

    /// The earliest end of a lease after `now`, among the targets that are due by `until`.
    pub(crate) fn next_end(&self, now: Moment, until: Moment) -> Option<Moment> {
        let due = self.by_due.iter().take_while(|&&(due, _)| due <= until);
        let ends = due.map(|(_, id)| self.targets[id].schedule.ends);
        ends.filter(|&ends| ends > now).min()
    }

    /// When I/O that begins at `now` has to end: at `latest`, or earlier if another renewed target
    /// needs the time. Each such target allows I/O for a sixth of its lease, or until it is due if
    /// that is later. So a server that hangs leaves every lease time for more than one attempt.
    pub(crate) fn io_end(&self, now: Moment, latest: Moment) -> Moment {
        let due = self.by_due.iter().take_while(|&&(due, _)| due < latest);
        let ends = due.filter_map(|(_, id)| {
            let schedule = &self.targets[id].schedule;
            Some(schedule.due.max(now.after(schedule.lease? / 6)))
        });
        ends.fold(latest, Moment::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap as Model;

    fn at(millis: u64) -> Moment {
        Moment::ZERO.after(Duration::from_millis(millis))
    }

    fn schedule(due: u64) -> Schedule {
        Schedule {
            due: at(due),
            confirm: Moment::NEVER,
            ends: Moment::NEVER,
            lease: None,
            retry: Duration::ZERO,
        }
    }

    #[test]
    fn a_failure_delays_a_schedule_but_not_the_end_of_its_lease() {
        let schedule = Schedule {
            ends: at(50),
            ..schedule(10)
        };
        assert_eq!(schedule.not_before(at(5)).due, at(10));
        assert_eq!(schedule.not_before(at(20)).due, at(20));
        assert_eq!(schedule.not_before(at(60)).due, at(50));
    }

    #[test]
    fn what_is_nearly_due_comes_with_what_is_due() {
        let lease = Some(Duration::from_secs(30));
        let mut registry = Registry::default();
        for (id, due) in [(1, 1000), (2, 1900), (3, 2100)] {
            registry.insert(
                id,
                (),
                Schedule {
                    lease,
                    ..schedule(due)
                },
            );
        }
        assert!(registry.due(at(999)).is_empty());
        let ids: Vec<TargetId> = registry
            .due(at(1000))
            .into_iter()
            .map(|(id, ())| id)
            .collect();
        assert_eq!(ids, [1, 2], "30 s / 32 is 937 ms");
    }

    #[test]
    fn the_next_end_is_that_of_a_lease_that_still_runs() {
        let mut registry = Registry::default();
        for (id, due, ends) in [(1, 10, 15), (2, 20, 90), (3, 30, 60), (4, 500, 40)] {
            let ends = at(ends);
            registry.insert(
                id,
                (),
                Schedule {
                    ends,
                    ..schedule(due)
                },
            );
        }
        assert_eq!(registry.next_end(at(5), at(100)), Some(at(15)));
        assert_eq!(registry.next_end(at(15), at(100)), Some(at(60)));
        assert_eq!(registry.next_end(at(15), at(25)), Some(at(90)));
        assert_eq!(registry.next_end(at(95), at(100)), None);
    }

    #[test]
    fn short_leases_leave_the_io_for_long_ones_the_time_until_they_are_due() {
        let mut registry = Registry::default();
        let mut insert = |id, due, lease| {
            let lease = Some(Duration::from_millis(lease));
            let schedule = Schedule {
                lease,
                ..schedule(due)
            };
            registry.insert(id, (), schedule);
            registry.io_end(at(1000), at(2000))
        };
        assert_eq!(insert(1, 1000, 30_000), at(2000), "a sixth is 5 s");
        assert_eq!(insert(2, 2000, 300), at(2000), "not due before");
        assert_eq!(insert(3, 1200, 300), at(1200), "when it is due");
        assert_eq!(
            insert(4, 1040, 300),
            at(1050),
            "a sixth, as it is due so soon"
        );
        assert_eq!(insert(5, 900, 600), at(1050), "a sixth is 100 ms");
        assert_eq!(insert(6, 900, 120), at(1020));
        registry.insert(7, (), schedule(1001));
        assert_eq!(registry.io_end(at(1000), at(2000)), at(1020), "not renewed");
    }

    #[derive(Clone, Debug)]
    enum Change {
        Insert(TargetId, u64),
        Reschedule(TargetId, u64),
        Remove(TargetId),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..40u64, 0..1000u64).prop_map(|(id, due)| Change::Insert(id, due)),
            (0..40u64, 0..1000u64).prop_map(|(id, due)| Change::Reschedule(id, due)),
            (0..40u64).prop_map(Change::Remove),
        ]
    }

    proptest! {
        /// Compares the registry with a plain map.
        #[test]
        fn it_is_a_map_of_due_times(
            changes in prop::collection::vec(change(), 0..200),
            now in 0..1000u64,
        ) {
            let mut registry = Registry::default();
            let mut model: Model<TargetId, u64> = Model::new();
            for change in changes {
                match change {
                    // An id is never used twice.
                    Change::Insert(id, _) if model.contains_key(&id) => {}
                    Change::Insert(id, due) => {
                        registry.insert(id, (), schedule(due));
                        model.insert(id, due);
                    }
                    Change::Reschedule(id, due) => {
                        let there = model.get_mut(&id).map(|old| *old = due);
                        let stored = registry.reschedule(id, |()| schedule(due));
                        prop_assert_eq!(stored, there.map(|()| at(due)));
                    }
                    Change::Remove(id) => {
                        prop_assert_eq!(registry.remove(id).is_some(), model.remove(&id).is_some());
                    }
                }
                prop_assert_eq!(registry.next_due(), model.values().min().map(|&due| at(due)));
            }
            let due = registry.due(at(now)).into_iter();
            let mut due: Vec<TargetId> = due.map(|(id, ())| id).collect();
            let mut expected: Vec<TargetId> =
                model.into_iter().filter(|&(_, due)| due <= now).map(|(id, _)| id).collect();
            due.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(due, expected);
        }
    }
}
