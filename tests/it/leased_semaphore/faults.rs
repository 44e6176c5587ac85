//! Missing permissions while permits are leased, and lost replies.

use super::view::View;
use super::{counts, now};
use crate::support::prelude::*;

/// A permission that is missing in the middle of a script leaves no half of a change.
#[test]
fn a_missing_permission_changes_nothing() {
    let server = Server::start();
    let name = unique("acl");
    let allow = |rule: &str| server.with_user(&["~*", "&*", "+@all", rule]);
    let semaphore = client(&allow("+@all")).leased_semaphore(&name);
    semaphore.try_set_permits(3).unwrap();
    let mut view = View::of(&server, &name);
    let total = |view: &mut View| view.available().unwrap() + view.leases().len() as i64;
    for command in ["zadd", "decrby", "incrby", "zrem"] {
        let held = now(&semaphore).unwrap();
        // An expired permit, which the next request makes available.
        view.lease_as_java([1; 16], -1.0);
        allow(&format!("-{command}"));
        assert_error!(semaphore.try_acquire_now(), Redis, "{command}");
        assert_eq!(total(&mut view), 3, "{command}");
        let released = held.release();
        assert!(released.is_ok() || ["incrby", "zrem"].contains(&command));
        assert_eq!(total(&mut view), 3, "{command}");
        allow("+@all");
        eventually("the release in the background", || {
            drop(now(&semaphore));
            counts(&semaphore) == (3, 3)
        });
    }
}

/// A number is never changed twice, and an error says that it is unknown whether it was changed.
#[test]
fn a_lost_reply_changes_the_number_of_permits_at_most_once() {
    let server = ProxiedServer::new();
    for fault in [
        Fault::SwallowReply,
        Fault::SwallowRequest,
        Fault::ResetBeforeReply,
        Fault::CutInReply(2),
        Fault::HalfRequest,
        proxy_error(),
    ] {
        let name = unique("lost");
        let direct = server.rival().leased_semaphore(&name);
        direct.try_set_permits(10).unwrap();
        let client = server.builder(SLIP.get()).build().unwrap();
        let semaphore = client.leased_semaphore(&name);
        // Opens a connection, so that the first attempt of a call is sent at once.
        drop(semaphore.acquire().unwrap());
        let lost = server.fault_once("permit_total", &fault);
        let result = semaphore.add_permits(5);
        assert!(lost.load(Ordering::SeqCst), "{fault:?}");
        let is_done = !matches!(fault, Fault::SwallowRequest | Fault::HalfRequest);
        assert!(is_unavailable(&result), "{fault:?}: {result:?}");
        let expected = if is_done { 15 } else { 10 };
        assert_eq!(counts(&direct), (expected, expected), "{fault:?}");

        server.fault_once("permit_total", &fault);
        semaphore
            .set_permits(7)
            .or_else(|_| semaphore.set_permits(7))
            .unwrap();
        assert_eq!(counts(&direct), (7, 7), "{fault:?}");

        server.server.ask::<()>(&redis::cmd("FLUSHALL"));
        server.fault_once("permit_total", &fault);
        let result = semaphore.try_set_permits(3);
        assert!(is_unavailable(&result), "{fault:?}: {result:?}");
        assert_eq!(semaphore.try_set_permits(3).unwrap(), !is_done);
        assert_eq!(counts(&direct), (3, 3), "{fault:?}");
        server.proxy.clear_rules();
    }
}
