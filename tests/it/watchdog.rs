//! The watchdog. `faults::renewal` and `faults::hangs` have what can fail in a renewal.

use crate::support::prelude::*;

mod confirm;

/// A renewal under way does not affect a hold that is unlocked meanwhile, nor the next hold.
#[test]
fn a_release_during_a_renewal_is_no_loss() {
    let server = Server::start();
    let lease = millis(30);
    let client = builder(&server.url())
        .watchdog_lease(lease)
        .build()
        .unwrap();
    let busy = client.reentrant_lock("busy");
    let end = Instant::now() + millis(1000);
    let mut times = 0_u64;
    while Instant::now() < end {
        busy.lock().unwrap();
        // Around the moment of the renewal.
        thread::sleep(lease / 2 + lease * u32::try_from(times % 7).unwrap() / 30);
        match busy.unlock() {
            Ok(()) => times += 1,
            // A machine that stalls for a whole lease does lose it.
            Err(Error::Lost {
                reason: LostReason::Expired,
                ..
            }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(
        times > 10 && client.stats().renewals > 0,
        "{:?}",
        client.stats()
    );
    let free: bool = server.size() == 0;
    assert!(free, "no renewal created it again");
}
