//! Exit statuses, and what goes through: streams, arguments, the environment.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use super::{Over, holder, job, run, text};
use crate::locks::{await_waiters, client, hold, keys};
use crate::program::leasehold_nowhere;
use crate::support::server::Server;
use crate::support::timing::millis;

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
        job(&server, "", script).output().expect_all(status, "", "");
        assert!(keys(&server).is_empty(), "{script}");
    }
}

#[test]
fn a_lock_of_another_client_is_waited_for_or_reported() {
    let server = Server::start();
    let over = Over::new();
    let holder = holder(&server, &over);
    let none = job(&server, "--no-wait", "echo ran").output();
    let process = client(&server).holder("k").unwrap().unwrap().to_string();
    none.expect_refusal(75, &["\"k\"", &format!("(owner: {process});")]);
    let quiet = job(&server, "--quiet --wait 50ms", "echo ran").output();
    quiet.expect_all(75, "", "");
    let other = run(&server).arg("--no-wait").locked("another", "echo ran");
    other.output().expect_all(0, "ran\n", "");
    let mut waiting = job(&server, "--wait 60s", "echo ran").start();
    await_waiters(&server, "k", 1);
    assert!(waiting.is_running());
    over.create();
    waiting.end().expect_all(0, "ran\n", "");
    holder.end().expect(0);
    assert!(keys(&server).is_empty());
}

/// A command line of flock(1) works with `leasehold run` in place of `flock`.
#[test]
fn the_options_of_flock_mean_the_same() {
    let server = Server::start();
    let guard = hold(&client(&server), "k");
    for options in ["-n", "-w 0.05", "-w0", "--wait 0"] {
        let refused = job(&server, options, "echo ran").output();
        refused.expect_refusal(75, &["\"k\""]);
    }
    guard.unlock().unwrap();
    let text = run(&server).args(["-w", "5", "k", "-c", "echo a && exit 3"]);
    text.output().expect_all(3, "a\n", "");
    let shell = run(&server).env("SHELL", "/bin/echo");
    let shell = shell.args(["k", "--command", "-x y"]);
    shell.output().expect_all(0, "-c -x y\n", "");
}

#[test]
fn the_status_of_a_conflict_can_be_selected() {
    let server = Server::start();
    let guard = hold(&client(&server), "k");
    for (option, status) in [("-E", 0), ("-E", 255), ("--conflict-exit-code", 1)] {
        let options = format!("--no-wait {option} {status}");
        let refused = job(&server, &options, "echo ran").output();
        refused.expect_refusal(status, &["\"k\" is not free"]);
        let quiet = job(&server, &format!("{options} --quiet"), "echo ran");
        quiet.output().expect_all(status, "", "");
    }
    for wrong in ["256", "-1", "held"] {
        let options = format!("--conflict-exit-code={wrong}");
        let refused = job(&server, &options, "echo ran").output();
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
        "for i in 1 2 3; do sleep {seconds}; redis-cli -p {port} hvals k; done; \
         redis-cli -p {port} exists k"
    );
    let output = job(&server, &format!("--lease {}", text(lease)), &script).output();
    output.expect_all(0, "1\n1\n1\n1\n", "");
    assert!(keys(&server).is_empty());
}

#[test]
fn the_environment_tells_the_lock_and_its_token() {
    let server = Server::start();
    let script = "echo $LEASEHOLD_KEY ${LEASEHOLD_TOKEN-none}";
    let plain = run(&server).env("LEASEHOLD_TOKEN", "7");
    let plain = plain.locked("a key", script).output();
    plain.expect_all(0, "a key none\n", "");
    let token = || -> u64 {
        let text = job(&server, "--fenced", script).output().expect(0).text();
        let token = text.trim().strip_prefix("k ").expect("the key");
        token.parse().expect("a token")
    };
    let first = token();
    assert!(token() > first);
}

#[test]
fn a_command_that_cannot_run_takes_no_lock() {
    let server = Server::start();
    let over = Over::new();
    // An attempt to acquire the lock would have to wait.
    let holder = holder(&server, &over);
    let plain = over.beside("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    for (command, status, words) in [
        ("no-such-command", 127, "no such command"),
        ("/no/such/command", 127, "no such command"),
        ("", 127, "no such command"),
        ("/etc", 126, "directory"),
        (plain.to_str().unwrap(), 126, "permission denied"),
    ] {
        let output = run(&server).args(["--quiet", "k", "--", command, "x"]);
        output.output().expect_failure(status, &[words, command]);
    }
    over.create();
    holder.end().expect(0);
    std::fs::write(&plain, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&plain, PermissionsExt::from_mode(0o755)).unwrap();
    let refused = run(&server).args(["k", "--"]).arg(&plain).output();
    refused.expect_failure(126, &["interpreter"]);
    assert!(keys(&server).is_empty());
}

#[test]
fn verbose_reports_each_step_and_twice_the_log_of_the_library() {
    let server = Server::start();
    let steps = "leasehold: waiting for lock \"k\"\nleasehold: acquired lock \"k\"\n\
                 leasehold: released lock \"k\"\n";
    let output = job(&server, "-v", "echo out").output();
    output.expect_all(0, "out\n", steps);
    let script = format!("redis-cli -p {} del k; exit 9", server.port());
    // The release finds the loss, if nothing found it before.
    let output = job(&server, "", &script).output().expect(76);
    for word in ["its key was deleted", "the command ended with status 9"] {
        assert!(output.err.contains(word), "{output:?}");
    }
    assert_eq!(output.text(), "1\n");
    let output = job(&server, "-vv", &script).output().expect(76);
    assert!(output.err.contains("WARN"), "{output:?}");
}

#[test]
fn every_byte_and_every_argument_goes_through() {
    let server = Server::start();
    let all: Vec<u8> = (0..=255).collect();
    let input: Vec<u8> = all.iter().copied().cycle().take((4 << 20) + 77).collect();
    let cat = run(&server).args(["k", "--", "cat"]);
    let output = cat.input(input.clone()).output().expect(0);
    assert!(output.out == input, "{} bytes", output.out.len());
    assert_eq!(output.err, "");
    let to_stderr = job(&server, "", "cat >&2").input("to stderr\n\n");
    to_stderr.output().expect_all(0, "", "to stderr\n\n");

    let arguments: [&[u8]; 7] = [
        b"a b",
        b"",
        b"\xff\xfe no text",
        b"--lease",
        b"$HOME `id` *",
        b"\n",
        b"--",
    ];
    let print = run(&server).args(["k", "--", "printf", "%s|"]);
    let output = print.args(arguments.map(OsStr::from_bytes)).output();
    let mut expected = arguments.join(&b'|');
    expected.push(b'|');
    assert_eq!(output.expect(0).out, expected);
}
