//! A command that changes its user, and then may be sent no signals. Only root can bring that
//! about.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{delete, keys, run, text, until, wrap};
use crate::program::Program;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, millis, throughout};

/// Root that may send signals to itself alone.
const POWERLESS: [&str; 1] = ["--bounding-set=-kill"];

const OTHER_USER: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Whether this machine and this user can do that.
fn can_change_user() -> bool {
    let mut change = Command::new("setpriv");
    change.args(POWERLESS).arg("setpriv").args(OTHER_USER);
    let output = change.arg("true").output();
    output.is_ok_and(|output| output.status.success())
}

impl Program {
    /// The rest of the arguments: a lock, and a script that runs as another user.
    fn locked_as_another_user(self, key: &str, script: &str) -> Self {
        let all = [key, "--", "setpriv"].into_iter().chain(OTHER_USER);
        self.args(all.chain(["sh", "-c", script]))
            .with(|command| wrap(command, "setpriv", &POWERLESS))
    }
}

#[test]
fn a_job_that_cannot_be_ended_is_reported_and_waited_for() {
    if !can_change_user() {
        return;
    }
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let over = directory.path().join("over");
    let mut running = run(&server)
        .args(["--kill-after", &text(millis(50))])
        .locked_as_another_user("k", &format!("echo on; {}; exit 3", until(&over)))
        .start();
    assert_eq!(running.next_output(), "on\n");
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
    std::fs::write(&over, "").unwrap();
    let output = running.end().expect(76);
    assert_eq!((output.err.as_str(), output.text().as_str()), ("", ""));
    assert!(keys(&server).is_empty());
}
