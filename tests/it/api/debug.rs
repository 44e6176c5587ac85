//! The `Debug` output of a public type is one short line, whatever its client holds.

use std::fmt::Debug;

use leasehold::{Lease, LockClient};

use crate::support::client;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, eventually};

/// In bytes.
const LONGEST: usize = 250;

/// Returns the `Debug` output of `value` and asserts that it is short.
#[track_caller]
fn shown(value: &dyn Debug) -> String {
    let shown = format!("{value:?}");
    let lines = shown.lines().count();
    assert!(
        shown.len() < LONGEST && lines == 1,
        "{} bytes: {shown:.400}",
        shown.len()
    );
    shown
}

#[test]
fn a_lost_lock_is_shown_as_lost() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock("lost");
    let guard = lock.acquire_with(Lease::fixed(A_WHILE.get())).unwrap();
    let expected = r#"LockGuard { name: "lost", state: Lost(Expired), remaining: 0.0ns }"#;
    eventually("the end of the lease", || shown(&guard) == expected);
    assert!(shown(&lock).contains("hold_count: 0"));
}

#[test]
fn no_credentials_are_shown() {
    let server = Server::options().password("hunter2").start();
    let url = format!("redis://default:hunter2@{}", server.address());
    let builder = LockClient::builder(&url).credentials(Some("default"), "hunter2");
    let client = builder.clone().build().unwrap();
    let lock = client.reentrant_lock("order");
    let guard = lock.acquire().unwrap();
    for line in [
        shown(&builder),
        shown(&client),
        shown(&lock),
        shown(&guard),
        shown(&LockClient::builder_sentinel([&url], "main")),
        shown(
            &LockClient::builder_sentinel([&url], "main")
                .build()
                .unwrap(),
        ),
        shown(&LockClient::builder_cluster([&url]).build().unwrap()),
    ] {
        assert!(
            !line.contains("hunter2") && !line.contains("default"),
            "{line}"
        );
    }
}
