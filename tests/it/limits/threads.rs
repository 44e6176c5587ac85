//! The system starts no further thread.

use std::process::Command;

use crate::support::prelude::*;

/// The role: has no memory left for the stack of a thread.
pub fn without_threads(_: &[&str]) {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let size = status
        .lines()
        .find_map(|line| line.strip_prefix("VmSize:")?.strip_suffix("kB"))
        .and_then(|size| size.trim().parse::<u64>().ok())
        .expect("a number");
    let limit = Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string()])
        .arg(format!("--as={}", (size + 1024) * 1024))
        .status();
    assert!(limit.expect("prlimit is there").success());
    let error = LockClient::connect("redis://127.0.0.1:6379").expect_err("no thread");
    assert!(matches!(error, Error::NoThread { .. }), "{error}");
    assert!(error.is_transient(), "other threads may end");
    child::send_line(error);
}

#[test]
fn a_client_without_a_thread_says_what_to_raise() {
    let told = child::run_role("without_threads", &[]);
    assert!(
        told[0].contains("started no thread") && told[0].contains("ulimit -u"),
        "{told:?}"
    );
}
