//! Leases last as long as their holder.

use super::Stage;
use crate::support::prelude::*;

pub fn a_renewed_hold_lasts_longer_than_its_lease(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    let guard = lock.acquire().unwrap();
    throughout(LEASE.get() * 2, "held", || {
        stage.count() == 1 && lock.is_held_by_current_thread() && guard.check().is_ok()
    });
    let renewals = client.counted(|stats| stats.renewals);
    // One renewal each two thirds of a lease. A stalled machine may miss some, as long as the lease
    // lasts.
    assert!(
        (2..=4).contains(&(renewals / stage.parts())),
        "{renewals} renewals in two leases"
    );
    guard.unlock().unwrap();
    assert_eq!(client.counted(|stats| stats.lost), 0);
}

/// The time to live rises before the last third of the lease ends.
pub fn a_renewal_comes_in_the_last_third(stage: &Stage) {
    let lease = LEASE.get() * 2;
    let client = stage.client_with(|builder| builder.watchdog_lease(LEASE.get() * 2));
    let lock = stage.lock_of(&client);
    lock.lock().unwrap();
    let (mut shortest, mut seen, mut unseen) = (lease, Instant::now(), Duration::ZERO);
    eventually("a renewal", || {
        let left = stage.time_to_live().expect("it is held");
        if left > shortest + lease / 3 {
            // The renewal came after the last look, so at most this much later.
            unseen = seen.elapsed();
            return true;
        }
        (shortest, seen) = (left, Instant::now());
        false
    });
    let third = lease / 3;
    assert!(
        shortest <= third + SLIP.get() + unseen,
        "too early: {shortest:?} left"
    );
    assert!(
        shortest + SLIP.get() >= third,
        "too late: {shortest:?} left"
    );
    lock.unlock().unwrap();
}

pub fn a_released_lock_is_not_renewed(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    drop(lock.acquire().unwrap());
    throughout(LEASE.get(), "free", || stage.count() == 0);
    assert_eq!(client.counted(|stats| stats.renewal_calls), 0);
}

/// After the last permitted renewal, the holder is notified while its last lease still runs.
pub fn the_end_of_the_last_renewal_is_reported_in_time(stage: &Stage) {
    let client = stage.client();
    let lock = stage.lock_of(&client);
    let start = Instant::now();
    lock.lock_with(Lease::renewed_at_most(2)).unwrap();
    eventually("the end of its renewals", || {
        !lock.is_held_by_current_thread()
    });
    let notified = start.elapsed();
    assert_eq!(stage.count(), 1, "the last lease still runs");
    let left = stage.time_to_live().expect("it still runs");
    assert!(left >= LEASE.get() / 6, "notified with only {left:?} left");
    // Two renewals of two thirds of a lease each, and two thirds more.
    assert!(
        notified + SLIP.get() * 2 >= LEASE.get() * 2,
        "too early: {notified:?}"
    );
    assert!(
        notified <= LEASE.get() * 2 + SLIP.get() * 2,
        "too late: {notified:?}"
    );
    assert_eq!(client.counted(|stats| stats.renewals), 2 * stage.parts());

    eventually("the lease to run out", || stage.count() == 0);
    let result = lock.unlock();
    assert_lost(&result, LostReason::RenewalLimit);
}

/// The pace of renewals follows the lock's own lease. The client's leases are ten times as long.
pub fn a_lease_of_its_own_length_is_renewed(stage: &Stage) {
    let client = stage.client_with(|builder| builder.watchdog_lease(LEASE.get() * 10));
    let lock = stage.lock_of(&client);
    lock.lock_with(Lease::RENEWED.lasting(LEASE.get())).unwrap();
    throughout(LEASE.get() * 2, "held, for no longer than a lease", || {
        let left = stage.time_to_live().expect("it is held");
        left <= LEASE.get() && lock.is_held_by_current_thread()
    });
    assert!(client.counted(|stats| stats.renewals) >= 2 * stage.parts());
    lock.unlock().unwrap();
    lock.lock_with(Lease::renewed_at_most(0).lasting(LEASE.get()))
        .unwrap();
    eventually("the end of the hold", || !lock.is_held_by_current_thread());
    assert_matches!(lock.unlock(), Err(Error::Lost { .. }));
}
