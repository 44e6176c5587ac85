//! A command that changes its user, and then may be sent no signals. Only root can bring that
//! about.

use std::os::unix::fs::PermissionsExt;

use super::{Over, can_wrap, delete, run, text, wrap};
use crate::locks::keys;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, millis, throughout};

/// Root that may send signals to itself alone.
const POWERLESS: [&str; 1] = ["--bounding-set=-kill"];

const OTHER_USER: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Whether this machine and this user can do that.
fn can_change_user() -> bool {
    can_wrap(
        "setpriv",
        &[&POWERLESS[..], &["setpriv"], &OTHER_USER].concat(),
    )
}

#[test]
fn a_job_that_cannot_be_ended_is_reported_and_waited_for() {
    if !can_change_user() {
        return;
    }
    let server = Server::start();
    let over = Over::new();
    let all = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(over.directory.path(), all).unwrap();
    let script = format!("echo on; {}; exit 3", over.until());
    let job = run(&server).args(["--kill-after", &text(millis(50)), "k", "--", "setpriv"]);
    let job = job.args(OTHER_USER).args(["sh", "-c", &script]);
    let job = job.with(|command| wrap(command, "setpriv", &POWERLESS));
    let mut running = job.start().when_on();
    running.signal("TERM");
    let told = running.next_error();
    let words = "no SIGTERM: the command runs as another user and cannot be ended";
    assert!(told.contains(words), "{told}");
    running.signal("INT");
    delete(&server, "k");
    let told = running.next_error();
    let words = "its key was deleted); the command runs as another user and cannot be ended";
    assert!(told.contains(words), "{told}");
    throughout(A_WHILE.get(), "it is waited for", || running.is_running());
    over.create();
    running
        .end()
        .expect_failure(76, &["the command ended with status 3"]);
    assert!(keys(&server).is_empty());
}
