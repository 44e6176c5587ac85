//! Lost replies.

use super::keys;
use crate::support::prelude::*;
use crate::support::proxy::library_script;

fn faults() -> impl Iterator<Item = Fault> {
    let lost = [Fault::SwallowReply, Fault::ResetBeforeReply];
    lost.into_iter().chain([proxy_error()])
}

/// A client for which a lost reply costs a little, and whose leases do not end during the test.
fn client_of(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(SLIP.get());
    builder.watchdog_lease(SOON.get() * 6).build().unwrap()
}

/// The mode, and the number of owners.
fn state(server: &Server) -> (Option<String>, u32) {
    let mode: Option<String> = server.ask(redis::cmd("HGET").arg("lock").arg("mode"));
    let fields: u32 = server.ask(redis::cmd("HLEN").arg("lock"));
    (mode, fields.saturating_sub(1))
}

fn mode_is(server: &Server, mode: &str, owners: u32) {
    assert_eq!(state(server), (Some(mode.to_owned()), owners));
}

/// The write lock stays what it was.
#[test]
fn a_downgrade_that_is_never_answered_is_compensated() {
    let proxied = ProxiedServer::new();
    for fault in faults() {
        let lock = client_of(&proxied).read_write_lock("lock");
        let writing = lock.write().acquire().unwrap();
        proxied.fault_always("read_write_acquire", &fault);
        let result = lock.read().try_lock(Duration::ZERO, Lease::RENEWED);
        assert!(is_unavailable(&result), "{fault:?}: {result:?}");
        assert_eq!(lock.read().hold_count(), 0);
        eventually("no reader", || state(&proxied.server).1 == 1);
        mode_is(&proxied.server, "write", 1);
        proxied.proxy.clear_rules();
        writing.confirm().unwrap();
        pair(&lock.read());
        writing.unlock().unwrap();
        assert_eq!(keys(&proxied.server), [""; 0]);
    }
}

/// Two copies of a request, of which Redis executes the second first, are two readers.
#[test]
fn a_release_ends_all_copies_of_a_read_request() {
    let server = Server::start();
    let first = "0f3ae5a8-65b9-8e3d-b1f0-aabbccddeeff:1";
    let both = format!("{first}2 {first}");
    let run = |script: &str, arguments: &[&str]| {
        let mut call = redis::cmd("EVAL");
        call.arg(library_script(script)).arg(1).arg("lock");
        server.ask::<Option<i32>>(call.arg(arguments))
    };
    for names in [&*both, first] {
        let arguments = [names, "60000", "", "0", "read", "", "publish"];
        assert_eq!(run("read_write_acquire", &arguments), None);
    }
    let arguments = [&both, "redisson_rwlock:{lock}", "publish"];
    assert_eq!(run("read_write_release", &arguments), Some(1));
    assert_eq!(keys(&server), [""; 0]);
}
