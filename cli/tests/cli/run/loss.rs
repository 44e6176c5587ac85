//! A lock that is lost, or whose holder is killed, while its command runs.

use super::{FOREVER, Over, delete, is_dead, job, said_pid, text, time_to_live};
use crate::locks::keys;
use crate::program::full_pipe;
use crate::support::process::signal;
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, eventually, eventually_some, millis, within};

fn stubborn() -> String {
    format!("trap '' TERM; echo $$; {FOREVER}")
}

#[test]
fn the_command_is_ended_and_the_status_reports_it() {
    let server = Server::start();
    let script = format!("trap 'echo term; exit 9' TERM; echo on; {FOREVER}");
    let running = job(&server, "--quiet", &script).start().when_on();
    delete(&server, "k");
    let output = running.end();
    let output = output.expect_ended(76, &["\"k\"", "its key was deleted"], 9);
    assert_eq!(output.text(), "term\n");
}

#[test]
#[ignore = "soak"]
fn the_job_is_dead_soon_after_the_loss() {
    let server = Server::start();
    let lease = millis(6_000);
    // The one that ignores TERM has a sixth of its lease at most, whatever is left of that.
    for (script, kill_after, status) in [
        (&*stubborn(), millis(500), 137),
        (&stubborn(), millis(60_000), 137),
        ("echo $$; exec sleep 100", millis(60_000), 143),
    ] {
        let bound = lease / 10 + kill_after.min(lease / 6) + SLIP.get() * 4;
        let (of_lease, of_kill) = (text(lease), text(kill_after));
        let options = format!("--lease {of_lease} --kill-after {of_kill}");
        let running = job(&server, &options, script).start();
        let pid = said_pid(&running);
        delete(&server, "k");
        let dies = || eventually("the end of the job", || is_dead(pid));
        within(bound, "the end of the job", dies);
        running.end().expect_ended(76, &["deleted"], status);
        assert!(keys(&server).is_empty());
    }
}

#[test]
fn what_a_job_leaves_behind_is_killed_after_a_loss_only() {
    let server = Server::start();
    let script = "trap '' TERM; sleep 100 & echo $!; trap - TERM; wait";
    let options = format!("--kill-after {}", text(millis(500)));
    let running = job(&server, &options, script).start();
    let child = said_pid(&running);
    delete(&server, "k");
    running.end().expect_ended(76, &["deleted"], 143);
    eventually("the end of the child", || is_dead(child));

    let script = "sleep 100 >/dev/null 2>&1 & echo $!";
    let child = job(&server, "", script).output().expect(0).text();
    let child = child.trim().parse().unwrap();
    assert!(!is_dead(child));
    signal(child, "KILL");
}

#[test]
fn what_a_lost_job_leaves_behind_has_its_time_to_end() {
    let server = Server::start();
    let child = format!("trap 'sleep 0.5; echo cleaned; exit' TERM; echo on; {FOREVER}");
    // The shell itself ends with the first signal.
    let script = format!("({child}) 2>/dev/null & wait");
    let options = "--lease 60s --kill-after 60s";
    let running = job(&server, options, &script).start().when_on();
    delete(&server, "k");
    let output = running.end().expect_ended(76, &["deleted"], 143);
    assert_eq!(output.text(), "cleaned\n");
}

/// Nothing renews the lock of a process that is stopped.
#[test]
fn a_leasehold_that_was_stopped_for_longer_than_its_lease_ends_the_command() {
    let server = Server::start();
    let options = format!("--lease {}", text(LEASE.get()));
    let running = job(&server, &options, "echo on; exec sleep 100");
    let running = running.start().when_on();
    running.signal("STOP");
    let is_free = || time_to_live(&server, "k") < 0;
    eventually("the end of the lease", is_free);
    running.signal("CONT");
    let output = running.end().expect(76);
    assert!(output.err.contains("\"k\": it was lost"), "{output:?}");
}

/// A killed process can neither pass a signal on nor release its lock.
#[test]
fn the_job_dies_with_leasehold() {
    let server = Server::start();
    let lease = millis(1_500);
    let options = format!("--lease {}", text(lease));
    let running = job(&server, &options, &stubborn()).start();
    let job = said_pid(&running);
    assert!(!is_dead(job));
    running.signal("KILL");
    let dies = || eventually("the death of the job", || is_dead(job));
    within(millis(1_000), "the death of the job", dies);
    assert_eq!(running.end().signal(), Some(9));
    // Nothing renews it.
    let ends = || eventually("the end of the lease", || time_to_live(&server, "k") < 0);
    within(lease + millis(500), "the end of the lease", ends);
}

#[test]
fn a_release_that_fails_is_a_warning_also_with_quiet() {
    for quiet in ["", "--quiet"] {
        let server = Server::start();
        let over = Over::new();
        let script = format!("echo on; {}; exit 3", over.until());
        let options = format!("--timeout {} {quiet}", text(millis(200)));
        let running = job(&server, &options, &script).start().when_on();
        server.kill();
        over.create();
        running.end().expect_failure(3, &["k"]);
    }
}

#[test]
fn a_lost_job_ends_although_its_messages_are_not_read() {
    let server = Server::start();
    for verbosity in ["", "-v", "-vv"] {
        let over = Over::new();
        let pid = over.beside("pid");
        let script = format!(
            "trap '' TERM; exec 2>/dev/null; echo $$ >{0}.new; mv {0}.new {0}; {FOREVER}",
            pid.display()
        );
        let (_reader, stderr) = full_pipe();
        let options = format!("--kill-after 100ms {verbosity}");
        let running = job(&server, &options, &script).failing_to(stderr).start();
        let job = eventually_some("the job", || {
            std::fs::read_to_string(&pid).ok()?.trim().parse().ok()
        });
        delete(&server, "k");
        eventually("the end of the job", || is_dead(job));
        running.end().expect(76);
    }
}
