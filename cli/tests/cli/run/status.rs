//! Exit statuses, and what the command finds in its environment.

use super::{holder, keys, over, run};
use crate::program::{leasehold, leasehold_nowhere};
use crate::support::server::Server;
use crate::support::timing::{eventually, millis};

#[test]
fn the_status_is_the_commands() {
    let server = Server::start();
    for (script, status) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", 128 + 15),
        ("kill -KILL $$", 128 + 9),
        ("kill -INT $$", 128 + 2),
        ("kill -ABRT $$", 128 + 6),
        // One that has no name.
        ("kill -36 $$", 128 + 36),
    ] {
        let output = run(&server)
            .locked("status", script)
            .output()
            .expect(status);
        assert_eq!((output.err.as_str(), output.out.len()), ("", 0), "{script}");
        assert!(keys(&server).is_empty(), "{script}");
    }
}

#[test]
fn no_wait_reports_that_another_client_holds_the_lock() {
    let server = Server::start();
    let (_directory, over) = over();
    let holder = holder(&server, "taken", &over);

    let words = ["taken", "held by another client or thread"];
    let none = run(&server)
        .arg("--no-wait")
        .locked("taken", "echo ran")
        .output();
    assert_eq!(none.expect_failure(75, &words).text(), "");
    let quiet = run(&server)
        .args(["--quiet", "--wait", "50ms"])
        .locked("taken", "echo ran");
    let quiet = quiet.output().expect(75);
    assert_eq!((quiet.text(), quiet.err), (String::new(), String::new()));
    let other = run(&server)
        .arg("--no-wait")
        .locked("another", "echo ran")
        .output();
    assert_eq!(other.expect(0).text(), "ran\n");

    let mut waiting = run(&server)
        .args(["--wait", "60s"])
        .locked("taken", "echo ran")
        .start();
    super::await_waiters(&server, "taken", 1);
    assert!(waiting.is_running());
    std::fs::write(&over, "").unwrap();
    assert_eq!(waiting.end().expect(0).text(), "ran\n");
    holder.end().expect(0);
    assert!(keys(&server).is_empty());
}

#[test]
fn the_status_of_a_conflict_can_be_selected() {
    let server = Server::start();
    let guard = crate::locks::hold(&crate::locks::client(&server), "taken");
    for option in ["-E", "--conflict-exit-code"] {
        for status in [0, 1, 255] {
            let status_option = [option, &status.to_string()];
            let job = || run(&server).arg("--no-wait").args(status_option);
            let refused = job().locked("taken", "echo ran").output();
            refused.expect_failure(status, &["taken", "another client"]);
            let quiet = job().arg("--quiet").locked("taken", "echo ran").output();
            let quiet = quiet.expect(status);
            assert_eq!((quiet.text(), quiet.err), (String::new(), String::new()));
        }
    }
    for wrong in ["256", "-1", "held"] {
        let job = run(&server).arg(format!("--conflict-exit-code={wrong}"));
        let refused = job.locked("taken", "echo ran").output();
        refused.expect_failure(64, &["--conflict-exit-code"]);
    }
    guard.unlock().unwrap();
    // No option promises another status.
    for command in ["run", "hold"] {
        let help = leasehold_nowhere().args([command, "-h"]).output();
        let help = help.expect(0).text();
        assert_eq!(help.matches("75").count(), 1, "{help}");
        assert!(help.contains("[default: 75]"), "{help}");
    }
}

#[test]
fn the_lock_is_held_while_the_command_runs() {
    let server = Server::start();
    let port = server.port();
    // For three leases.
    let lease = millis(750);
    let seconds = lease.as_secs_f64();
    let script = format!(
        "for i in 1 2 3; do sleep {seconds}; redis-cli -p {port} hvals held; done; \
         redis-cli -p {port} exists held"
    );
    let output = run(&server)
        .args(["--lease", &super::text(lease)])
        .locked("held", &script)
        .output();
    assert_eq!(output.expect(0).text(), "1\n1\n1\n1\n");
    assert!(keys(&server).is_empty());
}

#[test]
fn the_environment_tells_the_lock_and_its_token() {
    let server = Server::start();
    let script = "echo $LEASEHOLD_KEY ${LEASEHOLD_TOKEN-none}";
    let plain = run(&server)
        .env("LEASEHOLD_TOKEN", "7")
        .locked("a key", script)
        .output();
    assert_eq!(plain.expect(0).text(), "a key none\n");
    let mut tokens: Vec<u64> = Vec::new();
    for _ in 0..3 {
        let fenced = run(&server)
            .arg("--fenced")
            .locked("fenced", script)
            .output();
        let text = fenced.expect(0).text();
        let token = text.trim().strip_prefix("fenced ").expect("the key");
        tokens.push(token.parse().expect("a token"));
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn a_command_that_is_not_there_takes_no_lock() {
    let server = Server::start();
    let (directory, over) = over();
    // An attempt to acquire the lock would have to wait.
    let holder = holder(&server, "k", &over);
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    for (command, status, words) in [
        ("no-such-command", 127, "no such command"),
        ("/no/such/command", 127, "no such command"),
        ("", 127, "no such command"),
        ("/etc", 126, "directory"),
        (plain.to_str().unwrap(), 126, "permission denied"),
    ] {
        let output = run(&server)
            .args(["--quiet", "k", "--", command, "x"])
            .output();
        output.expect_failure(status, &[words, command]);
    }
    std::fs::write(&over, "").unwrap();
    holder.end().expect(0);
}

#[test]
fn a_command_that_the_system_refuses_gives_the_lock_back() {
    use std::os::unix::fs::PermissionsExt;

    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("command");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    // The command did not start, so `--at-least` does not apply.
    let output = run(&server)
        .args(["--at-least", "60s", "k", "--"])
        .arg(&file)
        .output();
    output.expect_failure(126, &["interpreter"]);
    assert!(keys(&server).is_empty());
}

#[test]
fn a_command_that_says_what_the_system_says_of_others_did_run() {
    let server = Server::start();
    for (key, status) in [("refused", 126), ("missing", 127)] {
        let output = run(&server)
            .args(["--at-least", "60s"])
            .locked(key, &format!("exit {status}"))
            .output();
        output.expect(status);
        assert!(keys(&server).contains(&key.to_owned()));
    }
}

#[test]
fn verbose_reports_each_step() {
    let server = Server::start();
    let output = run(&server)
        .arg("-v")
        .locked("k", "echo out")
        .output()
        .expect(0);
    let told: Vec<&str> = output.err.lines().collect();
    let expected = [
        "leasehold: waiting for lock \"k\"",
        "leasehold: acquired lock \"k\"",
        "leasehold: released lock \"k\"",
    ];
    assert_eq!(
        (told.as_slice(), output.text().as_str()),
        (&expected[..], "out\n")
    );
}

#[test]
fn what_the_library_logs_is_shown_to_who_asks_twice() {
    let server = Server::start();
    let script = format!("redis-cli -p {} del k", server.port());
    let output = run(&server)
        .arg("-vv")
        .locked("k", &script)
        .output()
        .expect(76);
    assert!(output.err.contains("WARN"), "{output:?}");
    assert_eq!(output.text(), "1\n");
}

/// The lock is another's for the time that Redis is asked about.
#[test]
fn a_job_may_take_a_lock_of_its_own() {
    let server = Server::start();
    let inner = format!("'{}' run inner -- echo inner", crate::program::PATH);
    let output = leasehold(&server.url())
        .arg("run")
        .locked("outer", &inner)
        .output();
    assert_eq!(output.expect(0).text(), "inner\n");
    eventually("nothing to be left", || keys(&server).is_empty());
}
