//! Locks that stay free after the loss of their lines.

use super::{WAITS_WITHOUT_FAULTS, assert_found};

fn free_until(millis: u32) -> String {
    let log = WAITS_WITHOUT_FAULTS.replace("1100 1 1", &format!("{millis} 1 1"));
    let log = log.replace("1200 0 0", "32000 0 0");
    format!("{log}\n 60 0 0 line-lost 0")
}

#[test]
fn a_lock_may_stay_free_until_clients_notice_that_its_line_is_lost() {
    assert_found(&free_until(1360), &[]);
    assert_found(&free_until(1361), &["lock stuck"]);
    for other in ["9 0 0 line-lost 0", "60 0 0 line-lost 1"] {
        let log = free_until(1360).replace("60 0 0 line-lost 0", other);
        assert_found(&log, &["lock stuck"]);
    }
}

#[test]
fn a_client_that_may_have_been_far_behind_notices_later_that_its_line_is_lost() {
    // With calls of this many other processes, from before the loss.
    let beside = |others: u32, millis: u32| {
        let calls = (2..2 + others).map(|process| {
            format!(
                "
                20 {process} 1 asks 1 0 30 try_acquire
                40 {process} 1 answered 1 held by another"
            )
        });
        free_until(millis) + &calls.collect::<String>()
    };
    assert_found(&beside(11, 30_060), &[]);
    // Since the begin of the calm, and since it has settled.
    assert_found(&beside(11, 30_061), &["lock stuck", "lock stuck"]);
    assert_found(&beside(10, 1361), &["lock stuck"]);
    assert_found(
        &beside(11, 1361).replace("20 2 1", "61 2 1"),
        &["lock stuck"],
    );
    assert_found(
        &beside(11, 1361)
            .replace("20 2 1", "5 2 1")
            .replace("40 2 1", "9 2 1"),
        &["lock stuck"],
    );
}
