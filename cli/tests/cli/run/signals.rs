//! Signals reach the command, or end the wait for the lock.

use std::process::Command;
use std::time::Instant;

use super::{FOREVER, Over, holder, is_dead, job, said_pid, text, wrap};
use crate::locks::{await_waiters, keys};
use crate::support::process::{is_stopped, signal};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, eventually, eventually_some, millis, throughout};

/// Those that are passed on, and end the command at once.
const PASSED_ON: &str = "HUP INT QUIT TERM USR1 WINCH ALRM VTALRM PROF IO XCPU XFSZ SYS";

#[test]
fn the_command_gets_them() {
    let server = Server::start();
    let script = format!(
        "for signal in {PASSED_ON}; do trap \"echo $signal\" $signal; done; \
         trap 'echo USR2; exit 7' USR2; echo on; {FOREVER}"
    );
    let running = job(&server, "", &script).start().when_on();
    for signal in PASSED_ON.split(' ') {
        running.signal(signal);
        assert_eq!(running.next_output(), format!("{signal}\n"));
    }
    running.signal("USR2");
    running.end().expect_all(7, "USR2\n", "");
    assert!(keys(&server).is_empty());
}

#[test]
fn the_group_of_the_command_gets_them_and_is_its_own() {
    let server = Server::start();
    let script = format!(
        "echo $$ $(ps -o pgid= -p $$); trap 'echo parent' TERM; \
         sh -c 'trap \"echo child; exit\" TERM; echo on; {FOREVER}' & wait; wait"
    );
    let running = job(&server, "", &script).start();
    let mut told = String::new();
    let mut read_until = |parts: &[&str]| {
        while !parts.iter().all(|part| told.contains(part)) {
            let more = running.next_output();
            assert!(!more.is_empty(), "{told}");
            told.push_str(&more);
        }
        told.clone()
    };
    let lines = read_until(&["on\n"]);
    let first: Vec<&str> = lines.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(first[0], first[1]);
    running.signal("TERM");
    read_until(&["child\n", "parent\n"]);
}

/// The worker looks whether it is locked when it has done its last.
#[test]
fn the_lock_is_kept_until_the_rest_of_a_job_that_was_asked_to_end_has_ended() {
    let server = Server::start();
    let look = format!("redis-cli -p {} exists k", server.port());
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let over = Over::new();
        let until = over.until();
        let worker = format!("trap 'echo off; {until}; {look}; exit' {name}; echo on; {FOREVER}");
        // The shell itself ends with the signal. What it puts into the background would ignore INT.
        let script = format!("env --default-signal={name} sh -c \"{worker}\" 2>/dev/null & wait");
        let mut running = job(&server, "--kill-after 60s", &script).start().when_on();
        running.signal(name);
        assert_eq!(running.next_output(), "off\n");
        throughout(A_WHILE.get(), "it is waited for", || running.is_running());
        over.create();
        assert_eq!(running.end().expect(128 + number).text(), "1\n");
        assert!(keys(&server).is_empty());
    }
}

#[test]
fn the_wait_for_the_rest_of_a_job_is_bounded_and_kills_nothing() {
    let server = Server::start();
    let kill_after = millis(300);
    let script = "trap '' TERM; sleep 100 >/dev/null 2>&1 & trap - TERM; echo $!; wait";
    let options = format!("--kill-after {}", text(kill_after));
    let running = job(&server, &options, script).start();
    let child = said_pid(&running);
    let told = Instant::now();
    running.signal("TERM");
    running.end().expect(128 + 15);
    assert!(told.elapsed() >= kill_after);
    assert!(keys(&server).is_empty());
    assert!(!is_dead(child));
    signal(child, "KILL");
}

/// As the first process of a container, it must reap the orphans of the job.
#[test]
fn zombies_of_a_job_are_not_waited_for() {
    let apart = ["--pid", "--fork", "--mount-proc"];
    let allowed = Command::new("unshare").args(apart).arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return;
    }
    let server = Server::start();
    let script = "sleep 100 & kill -s TERM $PPID; wait";
    let job = job(&server, "--kill-after 60s", script);
    let job = job.with(|command| wrap(command, "unshare", &apart));
    job.output().expect(128 + 15);
}

#[test]
fn they_end_a_wait() {
    let server = Server::start();
    let over = Over::new();
    let holder = holder(&server, &over);
    for (signal, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)] {
        for wait in ["", "--wait 60s"] {
            let mut waiting = job(&server, wait, "echo ran").start();
            await_waiters(&server, "k", 1);
            // There is no job yet that could want it.
            waiting.signal("USR1");
            let period = A_WHILE.get() / 4;
            throughout(period, "the wait goes on", || waiting.is_running());
            waiting.signal(signal);
            waiting.end().expect_all(128 + number, "", "");
            await_waiters(&server, "k", 0);
        }
    }
    over.create();
    holder.end().expect(0);
    assert!(keys(&server).is_empty());
}

#[test]
fn they_end_a_wait_for_a_redis_that_does_not_reply() {
    let server = Server::start();
    server.pause();
    let waiting = job(&server, "", "echo ran").start();
    eventually_some("its threads", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", waiting.pid())).ok()?;
        (tasks.count() > 3).then_some(())
    });
    waiting.signal("INT");
    waiting.end().expect(128 + 2);
    server.resume();
    let is_free = || keys(&server).is_empty();
    throughout(A_WHILE.get(), "nothing is locked", is_free);
}

#[test]
fn a_command_that_was_stopped_is_continued_and_can_be_ended() {
    let server = Server::start();
    for signals in [&["CONT", "TERM"][..], &["TERM"]] {
        // No shell that forks: its state would not be plain.
        let running = job(&server, "", "echo $$; exec sleep 100").start();
        let job = said_pid(&running);
        signal(job, "STOP");
        eventually("the command to stop", || is_stopped(job));
        // This is not passed on, and nothing would renew the lock of a `leasehold` that it stops.
        running.signal("TSTP");
        for signal in signals {
            running.signal(signal);
            if *signal == "CONT" {
                eventually("the command to go on", || !is_stopped(job));
            }
        }
        running.end().expect(128 + 15);
    }
}

/// `nohup`, and what shells do with Ctrl-C for jobs in the background.
#[test]
fn what_was_ignored_stays_ignored() {
    let server = Server::start();
    let ignoring = ["-c", "trap '' HUP INT; exec \"$@\"", "sh"];
    let job = job(&server, "", "echo on; exec sleep 100");
    let job = job.with(|command| wrap(command, "sh", &ignoring));
    let mut running = job.start().when_on();
    running.signal("HUP");
    running.signal("INT");
    throughout(A_WHILE.get(), "it goes on", || running.is_running());
    running.signal("TERM");
    running.end().expect(128 + 15);
}

/// Whatever it was here: the command is to end with the reader of its pipe.
#[test]
fn a_broken_pipe_ends_the_command() {
    let server = Server::start();
    let ignoring = ["-c", "trap '' PIPE; exec \"$@\"", "sh"];
    let job = job(&server, "", "kill -s PIPE $$; echo went on");
    let job = job.with(|command| wrap(command, "sh", &ignoring));
    job.output().expect(128 + 13);
}
