//! The `Debug` output of a public type is one short line, whatever its client holds.

use std::fmt::Debug;

use leasehold::LockClient;

use crate::support::server::Server;

/// In bytes.
const LONGEST: usize = 280;

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
