//! What is left in Redis after the end of all clients.

use super::{BOUNDS, Bounds, assert_found, found_with};

#[test]
fn a_key_that_should_have_ended_is_found() {
    for (key, is_found) in [
        ("250 torture:0 = owner:1 1", true),
        ("-1 torture:0 = owner:1 1", true),
        ("250 {torture:0}:owner:1:rwlock_timeout:1 = 1", true),
        ("-1 unknown = 1", true),
        // The last token, the count of a latch, and leases of permits never end.
        ("-1 redisson_lock_token:{torture:0} = 5", false),
        ("-1 latch:5 = 2", false),
        ("-1 {torture:0}:timeout = id", false),
        ("-1 {torture:0}:queries = 1/1/1/2", false),
        // These end later.
        ("90000 leasehold_line:{torture:0} = place", false),
        ("90001 leasehold_line:{torture:0} = place", true),
        ("-1 leasehold_line:{torture:0} = place", true),
        ("120000 {torture:0}:leasehold:a = 1 5?0", false),
        ("120001 {torture:0}:leasehold:a = 1 5?0", true),
        ("86400000 {torture:0}:leasehold:query = a:1?2", false),
        ("86400001 {torture:0}:leasehold:query = a:1?2", true),
        ("10000 {torture:0}:condition:not full = a:1", false),
        ("10001 {torture:0}:condition:not full = a:1", true),
        ("3600000 redisson_lock_queue:{torture:0} = a:0", false),
        ("-1 redisson_lock_timeout:{torture:0} = a:0", true),
    ] {
        let kinds: &[&str] = if is_found { &["left over"] } else { &[] };
        assert_found(&format!("10 0 0 left {key}"), kinds);
    }
}

#[test]
fn a_query_that_was_executed_after_its_hold_is_found() {
    for (executed, is_found) in [
        ("1/1/1/2 1/1/1/3 2/1/1/2 1/1/5/6", false),
        ("1/1/1/2 2/1/1/2 1/1/1/3", true),
        ("1/1/1/3 1/1/1/2", true),
        ("1/1/1/2 1/1/1/2", true),
    ] {
        let kinds: &[&str] = if is_found { &["late query"] } else { &[] };
        let log = format!("10 0 0 left -1 {{torture:0}}:queries = {executed}");
        assert_found(&log, kinds);
    }
}

#[test]
fn a_place_of_a_client_that_was_not_killed_is_found() {
    let log = "
        1 1 0 client a
        9 0 0 end
        10 0 0 left 5000 leasehold_line:{torture:0} = redisson_lock__channel:{leasehold:a}";
    assert_found(log, &["left over"]);
    assert_found(&log.replace("= red", "= ~red"), &["left over"]);
    assert_found(&log.replace("client a", "client b"), &[]);
    assert_found(&format!("{log}\n 5 0 0 killed 1"), &[]);
    // A request that was executed late, for a lock that is used no more.
    assert_found(&log.replace("torture:0", "worker:1"), &[]);
}

#[test]
fn a_semaphore_that_lacks_permits_is_found() {
    let bounds = Bounds {
        permits: Some(3),
        ..BOUNDS
    };
    let found = |free: u32, leases: &str| {
        let log = format!("10 0 0 left -1 torture:0 = {free}\n{leases}");
        found_with(&bounds, &log)
    };
    assert_eq!(found(3, ""), [""; 0]);
    assert_eq!(found(2, ""), ["left over"]);
    assert_eq!(found(4, ""), ["left over"]);
    // The lease of a dead holder has ended, and no client has asked since.
    let leases = "10 0 0 left -1 {torture:0}:timeout = id";
    assert_eq!(found(2, leases), [""; 0]);
    assert_eq!(found(3, leases), ["left over"]);
}
