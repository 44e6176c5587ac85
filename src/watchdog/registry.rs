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

/// The most targets without renewals that are handled in one pass. A program may drop many guards
/// at once, and while their releases are prepared, the leases of others run.
const OTHERS: usize = 1_000;

type ByTime = BTreeSet<(Moment, TargetId)>;

#[derive(Debug)]
pub(crate) struct Registry<T> {
    targets: HashMap<TargetId, Target<T>>,
    /// Targets whose leases are renewed.
    renewed_by_due: ByTime,
    /// Idle grants, and fixed leases.
    others_by_due: ByTime,
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
            renewed_by_due: ByTime::new(),
            others_by_due: ByTime::new(),
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
        match schedule.lease {
            Some(_) => &mut self.renewed_by_due,
            None => &mut self.others_by_due,
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
        self.renewed_by_due.clear();
        self.others_by_due.clear();
        self.by_unconfirmed.clear();
        let targets = self.targets.drain();
        targets.map(|(_, entry)| entry.target).collect()
    }

    pub(crate) fn contains(&self, id: TargetId) -> bool {
        self.targets.contains_key(&id)
    }

    /// When the first target is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let first = [&self.renewed_by_due, &self.others_by_due].map(|set| set.first());
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

    fn renewed(&self, until: Moment) -> impl Iterator<Item = (TargetId, &Target<T>)> {
        self.due_by(&self.renewed_by_due, until)
    }

    fn others(&self, until: Moment) -> impl Iterator<Item = (TargetId, &Target<T>)> {
        self.due_by(&self.others_by_due, until).take(OTHERS)
    }

    /// Returns the targets that are due at `now`, first those whose leases are renewed. With them
    /// come those that would be due within the slack of the first of them. Of the other targets it
    /// returns no more than a pass handles. All stay registered, and can be removed while the caller
    /// handles them.
    pub(crate) fn due(&self, now: Moment) -> Vec<(TargetId, T)> {
        let first = self.renewed(now).next();
        let first = first.and_then(|(_, entry)| entry.schedule);
        let lease = first.and_then(|schedule| schedule.lease);
        let until = now.after(lease.map_or(Duration::ZERO, slack));
        let due = self.renewed(until).chain(self.others(until));
        due.map(|(id, entry)| (id, entry.target.clone())).collect()
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

    /// The earliest end of a lease after `now`, among the targets that are due by `until`.
    pub(crate) fn next_end(&self, now: Moment, until: Moment) -> Option<Moment> {
        let due = self.renewed(until).chain(self.others(until));
        let ends = due.filter_map(|(_, entry)| entry.schedule);
        let ends = ends.map(|schedule| schedule.ends);
        ends.filter(|&ends| ends > now).min()
    }

    /// When I/O that begins at `now` has to end: at `latest`, or earlier if another renewed target
    /// needs the time. Each such target allows I/O for half of what is left of its lease at a
    /// renewal, a sixth of the lease, or until it is due if that is later. So a server that hangs
    /// leaves every lease time for more than one attempt.
    pub(crate) fn io_end(&self, now: Moment, latest: Moment) -> Moment {
        let ends = self.renewed(latest).filter_map(|(_, entry)| {
            let schedule = entry.schedule?;
            let time = left_at_renewal(schedule.lease?) / 2;
            Some(schedule.due.max(now.after(time)))
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
            unconfirmed: Moment::NEVER,
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
            registry.add(
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

    /// Otherwise a lease ends while the releases of many dropped guards are prepared.
    #[test]
    fn a_renewal_comes_before_many_releases_of_which_a_pass_has_a_part() {
        let mut registry = Registry::default();
        let many = OTHERS as u64 + 500;
        for id in 0..many {
            registry.add(id, (), schedule(10));
        }
        let lease = Some(Duration::from_secs(30));
        let renewed = Schedule {
            lease,
            ..schedule(900)
        };
        registry.add(many, (), renewed);
        let due = registry.due(at(900));
        assert_eq!((due[0].0, due.len()), (many, 1 + OTHERS));
        for (id, ()) in due {
            registry.remove(id);
        }
        assert_eq!(registry.due(at(900)).len(), 500);
    }

    #[test]
    fn the_next_end_is_that_of_a_lease_that_still_runs() {
        let mut registry = Registry::default();
        for (id, due, ends) in [(1, 10, 15), (2, 20, 90), (3, 30, 60), (4, 500, 40)] {
            let ends = at(ends);
            registry.add(
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
            registry.add(id, (), schedule);
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
        registry.add(7, (), schedule(1001));
        assert_eq!(registry.io_end(at(1000), at(2000)), at(1020), "not renewed");
    }

    #[derive(Clone, Debug)]
    enum Change {
        Insert(TargetId),
        Reschedule(TargetId, Schedule),
        Remove(TargetId),
    }

    fn change() -> impl Strategy<Value = Change> {
        let any_schedule = || {
            let unconfirmed = prop::option::of(0..1000u64);
            (0..1000u64, unconfirmed, any::<bool>()).prop_map(|(due, unconfirmed, is_renewed)| {
                Schedule {
                    unconfirmed: unconfirmed.map_or(Moment::NEVER, at),
                    // Without a slack.
                    lease: is_renewed.then_some(Duration::ZERO),
                    ..schedule(due)
                }
            })
        };
        prop_oneof![
            (0..40u64).prop_map(Change::Insert),
            (0..40u64, any_schedule()).prop_map(|(id, one)| Change::Reschedule(id, one)),
            (0..40u64).prop_map(Change::Remove),
        ]
    }

    proptest! {
        /// Compares the registry with a plain map.
        #[test]
        fn it_is_a_map_of_schedules(
            changes in prop::collection::vec(change(), 0..200),
            now in 0..1000u64,
            most in 0..40usize,
        ) {
            let mut registry = Registry::default();
            let mut model: Model<TargetId, Option<Schedule>> = Model::new();
            for change in changes {
                match change {
                    // An id is never used twice.
                    Change::Insert(id) if model.contains_key(&id) => {}
                    Change::Insert(id) => {
                        registry.insert(id, ());
                        model.insert(id, None);
                    }
                    Change::Reschedule(id, schedule) => {
                        let there = model.get_mut(&id).map(|old| *old = Some(schedule));
                        let stored = registry.reschedule(id, |()| schedule);
                        prop_assert_eq!(stored, there.map(|()| schedule));
                    }
                    Change::Remove(id) => {
                        prop_assert_eq!(registry.remove(id).is_some(), model.remove(&id).is_some());
                    }
                }
                let due = model.values().flatten().map(|schedule| schedule.due);
                prop_assert_eq!(registry.next_due(), due.min());
                let unconfirmed = model.values().flatten().map(|one| one.unconfirmed);
                let unconfirmed = unconfirmed.min().unwrap_or(Moment::NEVER);
                prop_assert_eq!(registry.unconfirmed_since(), unconfirmed);
            }
            let first = |of: fn(&Schedule) -> (bool, Moment), most| {
                let all = model.iter();
                let all = all.filter_map(|(id, schedule)| Some((of(schedule.as_ref()?), *id)));
                let mut all: Vec<_> = all.filter(|&((_, moment), _)| moment <= at(now)).collect();
                all.sort_unstable();
                all.into_iter().take(most).map(|(_, id)| (id, ())).collect::<Vec<_>>()
            };
            // First those that are renewed.
            let due = first(|one| (one.lease.is_none(), one.due), usize::MAX);
            prop_assert_eq!(registry.due(at(now)), due);
            let unconfirmed = registry.unconfirmed(at(now), most);
            prop_assert_eq!(unconfirmed, first(|one| (false, one.unconfirmed), most));
        }
    }
}
