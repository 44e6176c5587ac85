//! Missing permissions while permits are leased.

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
