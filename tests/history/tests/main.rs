//! The violations that the checker finds in a log, and what it must not report.
//!
//! The logs are minimal. Their times are in milliseconds.

#[path = "../checker/mod.rs"]
mod checker;
mod exclusion;
mod kinds;
mod left_over;
mod lost_lines;
mod progress;
#[path = "../record/mod.rs"]
mod record;
mod results;
mod waits;

use std::time::Duration;

use checker::Bounds;
use record::{Event, Record};

const BOUNDS: Bounds = Bounds {
    permits: None,
    longest_lease: Duration::from_millis(300),
    idle: Duration::from_millis(1000),
    settled: Duration::from_millis(500),
    keeps_out: Duration::ZERO,
    line_noticed: Duration::from_millis(1300),
    log_in: Duration::from_millis(3000),
    reuse: Duration::from_millis(30),
    answered: Duration::from_millis(150),
    delivered: Duration::from_millis(100),
    slip: Duration::from_millis(100),
};

/// Process 1 holds lock 0, then process 2.
const TWO_IN_TURN: &str = "
    10 1 1 asks 1 0 0 lock
    12 1 1 has 1 5
    20 1 1 vouches 1
    15 2 1 asks 1 0 0 lock
    22 2 1 has 1 6
    30 2 1 vouches 1";

/// Process 1 waits for lock 0 in a calm. No thread holds it.
const WAITS_WITHOUT_FAULTS: &str = "
    50 0 0 calm
    10 1 1 asks 1 0 0 lock
    1100 1 1 has 1 0
    1200 0 0 storm";

fn found(log: &str) -> Vec<&'static str> {
    found_with(&BOUNDS, log)
}

fn found_with(bounds: &Bounds, log: &str) -> Vec<&'static str> {
    let violations = checker::check(&records(log), bounds).violations;
    violations.iter().map(|found| found.kind).collect()
}

fn records(log: &str) -> Vec<Record> {
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut records: Vec<Record> = lines
        .map(|line| {
            let mut record = Record::parse(line).unwrap_or_else(|| panic!("not a record: {line}"));
            assert_eq!(record.to_string(), line, "written as it is read");
            record.at *= 1_000_000;
            if let Event::Deleted { from, .. }
            | Event::FailedOver { from, .. }
            | Event::ClockSet { from, .. }
            | Event::Waiting { from, .. } = &mut record.event
            {
                *from *= 1_000_000;
            }
            if let Event::FailedOver { apart, .. } = &mut record.event {
                *apart *= 1_000_000;
            }
            record
        })
        .collect();
    records.sort_by_key(|record| record.at);
    records
}

#[track_caller]
fn assert_found(log: &str, kinds: &[&str]) {
    assert_eq!(found(log), kinds);
}

#[test]
fn a_violation_in_one_record_is_found() {
    for (record, kind) in [
        ("10 1 1 wrong 1 it is not held", "wrong result"),
        ("10 0 0 died 1", "worker died"),
        ("100 1 0 kept 90000000", "kept by hand-overs"),
    ] {
        assert_found(record, &[kind]);
    }
}

#[test]
fn tokens_rise() {
    // A token that is not greater is found.
    // The waiting holder knows only that it came later.
    let waits = TWO_IN_TURN.replace("15 2 1", "11 2 1");
    assert_found(&waits, &[]);
    assert_found(&waits.replace("has 1 6", "has 1 5"), &["token fell"]);
    // A token of an unchecked hold must rise too.
    let log = "
        10 1 1 asks 1 0 0 lock
        12 1 1 has 1 7
        15 2 1 asks 1 0 0 lock
        22 2 1 has 1 6";
    assert_found(log, &["token fell"]);
    // Both acquired at the same time, so either may have been first.
    assert_found(&log.replace("15 2 1", "11 2 1"), &[]);
    // A nested acquire with a token of its own is found.
    let log = "
        10 1 1 asks 1 0 0 acquire
        12 1 1 has 1 7
        13 1 1 asks 2 0 0 acquire
        14 1 1 has-again 2 1 7";
    assert_found(log, &[]);
    assert_found(&log.replace("2 1 7", "2 1 8"), &["token changed"]);
    // A token given twice is found. Also if neither was confirmed.
    let log = "
        12 1 1 held 1 0 10000000 5 0
        13 1 2 held 1 0 11000000 5 0";
    assert_found(log, &["token fell"]);
    // Two masters may have granted them, but not long after the failover.
    assert_found(&format!("{log}\n 20 0 0 failed-over 0 9 9"), &[]);
    assert_found(
        &format!("{log}\n 20 0 0 failed-over 0 14 14"),
        &["token fell"],
    );
    assert_found(&format!("{log}\n 20 0 0 deleted 0 9 0"), &["token fell"]);
}

#[test]
fn a_log_in_that_is_refused_long_after_a_change_of_the_password_is_found() {
    let log = "
        5 0 0 rotates
        20 1 1 refused 1 WRONGPASS
        3020 1 1 refused 2 WRONGPASS
        9000 2 1 refused 1 WRONGPASS";
    assert_found(log, &[]);
    let late = log.replace("3020", "3021");
    assert_found(&late, &["wrong result"]);
    // The password was not changed before.
    assert_found(&log.replace("5 0 0", "21 0 0"), &["wrong result"]);
    // It was changed again, or the process was paused.
    assert_found(&format!("{late}\n 3000 0 0 rotates"), &[]);
    let paused = format!("{late}\n 30 0 0 pauses 1\n 31 0 0 continued 1");
    assert_found(&paused, &[]);
}
