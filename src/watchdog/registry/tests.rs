//! Tests of when targets are due.

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
fn what_is_used_comes_before_many_releases_of_which_a_pass_has_a_part() {
    let mut registry = Registry::default();
    let many = UNUSED as u64 + 500;
    for id in 0..many {
        registry.add(id, (), schedule(10));
    }
    let renewed = Schedule {
        lease: Some(Duration::from_secs(30)),
        ..schedule(900)
    };
    registry.add(many, (), renewed);
    let fixed = Schedule {
        unconfirmed: at(5),
        ends: at(901),
        ..schedule(901)
    };
    registry.add(many + 1, (), fixed);
    assert_eq!(registry.all().len() as u64, many + 2);
    assert_eq!(registry.next_end(at(900), at(950)), Some(at(901)));
    let due = registry.due(at(900));
    assert_eq!((due[0].0, due[1].0), (many, many + 1));
    assert_eq!(due.len(), 2 + UNUSED);
    for (id, ()) in due {
        registry.remove(id);
    }
    assert_eq!(registry.due(at(900)).len(), 500);
}

#[test]
fn the_next_end_is_that_of_a_lease_that_still_runs() {
    let mut registry = Registry::default();
    for (id, due, ends) in [(1, 10, 15), (2, 20, 90), (3, 30, 60), (4, 500, 40)] {
        let (unconfirmed, ends) = (Moment::ZERO, at(ends));
        registry.add(
            id,
            (),
            Schedule {
                unconfirmed,
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
        // The unused ones are the last.
        let due = first(|one| (one.is_unused(), one.due), usize::MAX);
        prop_assert_eq!(registry.due(at(now)), due);
        let unconfirmed = registry.unconfirmed(at(now), most);
        prop_assert_eq!(unconfirmed, first(|one| (false, one.unconfirmed), most));
    }
}
