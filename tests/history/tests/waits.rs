//! Calls that wait for several locks, or for a notification.

use super::{assert_found, found};

#[test]
fn several_locks_are_stuck_if_all_are_free() {
    let waits = "
        50 0 0 calm
        60 1 1 asks 1 0 0 acquire
        60 1 1 together 1 0 1
        60 1 1 asks 2 1 0 acquire
        60 1 1 together 2 0 1
        1200 1 1 has 1 0
        1200 1 1 has 2 0
        1200 0 0 end";
    assert_found(waits, &["lock stuck"]);
    // Another client has one of them.
    let held = format!(
        "{waits}
        20 2 1 asks 1 1 0 lock
        30 2 1 has 1 0
        900 2 1 vouches 1"
    );
    assert_found(&held, &[]);
}

#[test]
fn a_notified_thread_waits_for_the_lock() {
    let waits = |notifies: &str, within: u64| {
        format!(
            "50 0 0 calm
            60 1 1 asks 1 0 0 wait
            60 1 1 waits 1 7 {within}
            70 1 2 asks 1 0 0 wait
            70 1 2 waits 1 7 0
            1900 1 1 answered 1 woken
            1900 1 2 answered 1 woken
            1950 0 0 end
            {notifies}"
        )
    };
    assert_found(&waits("", 0), &[]);
    assert_found(&waits("1200 2 1 notifies 0 7 false", 0), &["lock stuck"]);
    assert_found(&waits("1200 2 1 notifies 0 7 true", 0), &["lock stuck"; 2]);
    // Of another condition or lock, in time, or at once after faults.
    for notifies in [
        "1200 2 1 notifies 0 8 true",
        "1200 2 1 notifies 1 7 true",
        "1500 2 1 notifies 0 7 true",
        "1000 2 1 notifies 0 7 true",
    ] {
        assert_found(&waits(notifies, 0), &[]);
    }
    // Its time is over.
    assert_found(&waits("", 1200), &["lock stuck"]);
    assert_found(&waits("", 1500), &[]);
}

#[test]
fn a_thread_that_others_pass_again_and_again_is_found() {
    // The lock has a queue in the log. Two other clients have it in turn.
    let passed = |turns: u64, call: &str| {
        let holds = (0..turns).map(|turn| {
            let (process, at) = (2 + turn % 2, 1150 + turn * 2);
            let [asks, has] = [at, at + 1];
            format!("{asks} {process} 1 asks {turn} 0 0 lock\n{has} {process} 1 has {turn} 0\n")
        });
        let holds: String = holds.collect();
        format!(
            "0 0 0 calm
            1 0 0 waiting 0 1
            1100 1 1 asks 1 0 0 {call}
            1300 1 1 answered 1 failed
            {holds}
            1400 0 0 end"
        )
    };
    assert_found(&passed(24, "lock"), &[]);
    assert_found(&passed(25, "lock"), &["starved"]);
    // It is in the calm long enough, and waits for the lock all the time.
    let busy = passed(25, "lock").replace("0 0 0 calm", "170 0 0 calm");
    assert_found(&busy, &[]);
    assert_found(&passed(25, "rush"), &[]);
    let notified = format!("{}\n1100 1 1 waits 1 7 0", passed(25, "wait"));
    assert_found(&notified, &[]);
}

#[test]
fn a_notified_thread_reports_that() {
    let reports = |notified: u32, answer: &str| {
        format!(
            "50 0 0 calm
            60 1 1 asks 1 0 0 wait
            60 1 1 waits 1 7 1150
            70 1 2 asks 1 0 0 wait
            70 1 2 waits 1 7 1150
            1200 2 1 notifies 0 7 false
            1210 1 {notified} has 1 0
            1210 1 {notified} {answer}
            1950 0 0 end"
        )
    };
    let is_wrong = |log: &str| found(log).contains(&"wrong result");
    assert!(is_wrong(&reports(1, "not-notified 1")));
    assert!(!is_wrong(&reports(2, "not-notified 1")));
    assert!(!is_wrong(&reports(1, "vouches 1")));
}
