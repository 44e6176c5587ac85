//! Signals reach the command, or end the wait for the lock.

use std::process::Command;
use std::time::Instant;

use super::{await_waiters, holder, is_dead, keys, over, run, said_pid, text, until, wrap};
use crate::support::process::{is_stopped, signal};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, eventually, eventually_some, millis, throughout};

/// Tells each, and ends after the last.
const TELLING: &str = "for signal in HUP INT QUIT TERM USR1 WINCH ALRM VTALRM PROF IO XCPU XFSZ SYS; do trap \"echo $signal\" $signal; done; \
     trap 'echo USR2; exit 7' USR2; echo on; exec 2>/dev/null; while :; do sleep 0.02; done";

#[test]
fn the_command_gets_them() {
    let server = Server::start();
    let running = run(&server).locked("k", TELLING).start();
    assert_eq!(running.next_output(), "on\n");
    for signal in [
        "HUP", "INT", "QUIT", "TERM", "USR1", "WINCH", "ALRM", "VTALRM", "PROF", "IO", "XCPU",
        "XFSZ", "SYS",
    ] {
        running.signal(signal);
        assert_eq!(running.next_output(), format!("{signal}\n"));
    }
    running.signal("USR2");
    let output = running.end().expect(7);
    assert_eq!(
        (output.text().as_str(), output.err.as_str()),
        ("USR2\n", "")
    );
    assert!(keys(&server).is_empty());
}

#[test]
fn the_group_of_the_command_gets_them_and_is_its_own() {
    let server = Server::start();
    let script = "echo $$ $(ps -o pgid= -p $$); trap 'echo parent' TERM; \
         sh -c 'trap \"echo child; exit\" TERM; echo on; exec 2>/dev/null; while :; do sleep 0.02; done' & \
         wait; wait";
    let running = run(&server).locked("k", script).start();
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
    let (pid, group) = lines
        .lines()
        .next()
        .and_then(|line| line.split_once(' '))
        .unwrap();
    assert_eq!(pid, group.trim());
    running.signal("TERM");
    read_until(&["child\n", "parent\n"]);
}

#[test]
fn a_command_that_a_signal_ends_says_so() {
    let server = Server::start();
    for (signal, number) in [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("TERM", 15),
        ("USR1", 10),
    ] {
        let running = run(&server).locked("k", "echo on; exec sleep 100").start();
        running.next_output();
        running.signal(signal);
        running.end().expect(128 + number);
        assert!(keys(&server).is_empty());
    }
}

/// The worker looks whether it is locked when it has done its last.
#[test]
fn the_lock_is_kept_until_the_rest_of_a_job_that_was_asked_to_end_has_ended() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let over = directory.path().join(signal);
        let look = format!("redis-cli -p {} exists k", server.port());
        let worker = format!(
            "trap 'echo off; {}; {look}; exit' {signal}; echo on; while :; do sleep 0.02; done",
            until(&over)
        );
        // The shell itself ends with the signal. What it puts into the background would ignore INT.
        let script = format!("env --default-signal={signal} sh -c \"{worker}\" 2>/dev/null & wait");
        let mut running = run(&server)
            .args(["--kill-after", "60s"])
            .locked("k", &script)
            .start();
        assert_eq!(running.next_output(), "on\n");
        running.signal(signal);
        assert_eq!(running.next_output(), "off\n");
        throughout(A_WHILE.get(), "it is waited for", || running.is_running());
        std::fs::write(&over, "").unwrap();
        assert_eq!(running.end().expect(128 + number).text(), "1\n");
        assert!(keys(&server).is_empty());
    }
}

/// As by Ctrl-C on a terminal: the signal does not come by `leasehold`.
#[test]
fn the_lock_is_kept_until_the_rest_of_a_job_that_another_process_ended_has_ended() {
    let server = Server::start();
    let (_directory, over) = over();
    let look = format!("redis-cli -p {} exists k", server.port());
    // The worker prints the process id of the shell, so it exists by then.
    let script = format!("(echo $$; {}; {look}) & wait", until(&over));
    let mut running = run(&server)
        .args(["--kill-after", "60s"])
        .locked("k", &script)
        .start();
    let leader = said_pid(&running);
    signal(leader, "TERM");
    eventually("the job to end", || is_dead(leader));
    throughout(A_WHILE.get(), "its worker is waited for", || {
        running.is_running()
    });
    std::fs::write(&over, "").unwrap();
    assert_eq!(running.end().expect(128 + 15).text(), "1\n");
    assert!(keys(&server).is_empty());
}

#[test]
fn the_wait_for_the_rest_of_a_job_is_bounded_and_kills_nothing() {
    let server = Server::start();
    let kill_after = millis(300);
    let script = "trap '' TERM; sleep 100 >/dev/null 2>&1 & echo $!; trap - TERM; wait";
    let running = run(&server)
        .args(["--kill-after", &text(kill_after)])
        .locked("k", script)
        .start();
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
    run(&server)
        .args(["--kill-after", "60s"])
        .locked("k", "sleep 100 & kill -s TERM $PPID; wait")
        .with(|command| wrap(command, "unshare", &apart))
        .output()
        .expect(128 + 15);
}

#[test]
fn they_end_a_wait() {
    let server = Server::start();
    let (_directory, over) = over();
    let holder = holder(&server, "k", &over);
    for (signal, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)] {
        for wait in [&[][..], &["--wait", "60s"]] {
            let mut waiting = run(&server).args(wait).locked("k", "echo ran").start();
            await_waiters(&server, "k", 1);
            // There is no job yet that could want it.
            waiting.signal("USR1");
            throughout(A_WHILE.get() / 4, "the wait goes on", || {
                waiting.is_running()
            });
            waiting.signal(signal);
            let output = waiting.end().expect(128 + number);
            assert_eq!((output.text().as_str(), output.err.as_str()), ("", ""));
            await_waiters(&server, "k", 0);
        }
    }
    std::fs::write(&over, "").unwrap();
    holder.end().expect(0);
    assert!(keys(&server).is_empty());
}

/// The lock is granted to who has gone already.
#[test]
fn what_was_asked_when_the_wait_ended_is_undone() {
    let server = Server::start();
    let theirs = millis(1_000);
    let mut hold = redis::pipe();
    hold.hset("k", "other:1", 1)
        .pexpire("k", theirs.as_millis().try_into().unwrap());
    hold.query::<()>(&mut server.connection()).unwrap();
    let waiting = run(&server).locked("k", "echo ran").start();
    await_waiters(&server, "k", 1);
    let granted = || -> u64 {
        let stats: String = server.ask(redis::cmd("INFO").arg("commandstats"));
        let calls = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_hset:calls="));
        let calls = calls.and_then(|rest| rest.split(',').next()?.parse().ok());
        calls.unwrap_or(0)
    };
    let before = granted();
    server.pause();
    // It asks again when the lease of the other should be over.
    std::thread::sleep(theirs + millis(700));
    waiting.signal("TERM");
    let output = waiting.end().expect(128 + 15);
    assert_eq!((output.text().as_str(), output.err.as_str()), ("", ""));
    server.resume();
    eventually("the request to be carried out", || granted() > before);
    eventually("and undone", || keys(&server).is_empty());
    throughout(A_WHILE.get(), "nothing comes later", || {
        keys(&server).is_empty()
    });
}

#[test]
fn they_end_a_wait_for_a_redis_that_does_not_reply() {
    let server = Server::start();
    server.pause();
    let waiting = run(&server).locked("k", "echo ran").start();
    eventually_some("its threads", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", waiting.pid())).ok()?;
        (tasks.count() > 3).then_some(())
    });
    waiting.signal("INT");
    waiting.end().expect(128 + 2);
    server.resume();
    throughout(A_WHILE.get(), "nothing is locked", || {
        keys(&server).is_empty()
    });
}

/// Without a terminal, too.
#[test]
fn a_command_that_was_stopped_is_continued() {
    let server = Server::start();
    // No shell that forks: its state would not be plain.
    let script = "echo $$; exec sleep 100";
    for signals in [&["CONT", "TERM"][..], &["TERM"]] {
        let running = run(&server)
            .locked("k", script)
            // None, wherever the tests run.
            .with(|command| wrap(command, "setsid", &["-w"]))
            .start();
        let job = said_pid(&running);
        running.signal("TSTP");
        eventually("the job to stop", || is_stopped(job));
        for signal in signals {
            running.signal(signal);
            if *signal == "CONT" {
                eventually("the job to go on", || !is_stopped(job));
            }
        }
        running.end().expect(128 + 15);
    }
}

/// Only one process of the group was stopped; the others continued.
#[test]
fn all_of_a_command_that_was_stopped_rests_until_redis_has_said_that_it_may_go_on() {
    let server = Server::start();
    let running = run(&server)
        .args(["--lease", "60s", "--timeout", &text(millis(5_000))])
        .locked("k", "sleep 100 & echo $! $$; exec sleep 100")
        .with(|command| wrap(command, "setsid", &["-w"]))
        .start();
    let told = running.next_output();
    let pids: Vec<u32> = told.split_whitespace().flat_map(str::parse).collect();
    let [worker, leader] = pids[..] else {
        panic!("{told}");
    };
    signal(leader, "STOP");
    eventually("the leader to stop", || is_stopped(leader));
    server.pause();
    running.signal("CONT");
    eventually("the worker to stop", || is_stopped(worker));
    assert!(is_stopped(leader));
    server.resume();
    eventually("both to go on", || {
        !is_stopped(worker) && !is_stopped(leader)
    });
    running.signal("TERM");
    running.end().expect(128 + 15);
}

/// `nohup`, and what shells do with Ctrl-C for jobs in the background.
#[test]
fn what_was_ignored_stays_ignored() {
    let server = Server::start();
    let script = format!(
        "trap '' HUP INT; exec '{}' run k -- sh -c 'echo on; exec sleep 100'",
        crate::program::PATH
    );
    let mut running = crate::program::leasehold(&server.url())
        .with(|command| {
            let url = server.url();
            *command = Command::new("sh");
            command.env("LEASEHOLD_URL", url).args(["-c", &script]);
        })
        .start();
    running.next_output();
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
    let ending = "trap '' PIPE; exec \"$@\"";
    run(&server)
        .locked("k", "kill -s PIPE $$; echo went on")
        .with(|command| wrap(command, "sh", &["-c", ending, "sh"]))
        .output()
        .expect(128 + 13);
}
