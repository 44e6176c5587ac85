//! `leasehold run`.

mod another_user;
mod bad_input;
mod contention;
mod deaf;
mod deployments;
mod limits;
mod loss;
mod no_reply;
mod signals;
mod status;
mod streams;
mod terminal;
mod waiting_line;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::program::{Program, Running, leasehold};
use crate::support::server::Server;
use crate::support::timing::eventually;

/// The command, up to the key.
fn run(server: &Server) -> Program {
    leasehold(&server.url()).arg("run")
}

impl Program {
    /// The rest: a lock, and a script of the shell that runs under it.
    fn locked(self, key: &str, script: &str) -> Self {
        self.args([key, "--", "sh", "-c", script])
    }
}

/// Has another program start it.
fn wrap(command: &mut Command, by: &str, options: &[&str]) {
    let mut wrapped = Command::new(by);
    wrapped.args(options).arg(command.get_program());
    wrapped.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    *command = wrapped;
}

/// As the command line takes it.
fn text(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

fn keys(server: &Server) -> Vec<String> {
    server.ask(redis::cmd("KEYS").arg("*"))
}

fn delete(server: &Server, key: &str) {
    let deleted: u32 = server.ask(redis::cmd("DEL").arg(key));
    assert_eq!(deleted, 1, "{key} was held");
}

/// What Redis leaves of a key: milliseconds, or less than zero for none.
fn time_to_live(server: &Server, key: &str) -> i64 {
    server.ask(redis::cmd("PTTL").arg(key))
}

/// Waits until `count` clients are in the line of a lock.
fn await_waiters(server: &Server, key: &str, count: u64) {
    let line = format!("leasehold_line:{{{key}}}");
    eventually("the clients to wait", || {
        server.ask::<u64>(redis::cmd("ZCARD").arg(&line)) == count
    });
}

/// A directory, and a file in it that is not there yet, for which scripts wait.
fn over() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("over");
    (directory, file)
}

/// A script's part: runs on until the file is there.
fn until(file: &Path) -> String {
    format!("while [ ! -e '{}' ]; do sleep 0.02; done", file.display())
}

/// A job that has this lock until the file is there.
fn holder(server: &Server, key: &str, over: &Path) -> Running {
    let script = format!("echo on; {}", until(over));
    let holder = run(server).locked(key, &script).start();
    assert_eq!(holder.next_output(), "on\n");
    holder
}

/// The process that a job says it is, which it says first.
fn said_pid(running: &Running) -> u32 {
    running.next_output().trim().parse().expect("a process id")
}

/// True if the process runs no more instructions of its program: it is gone, a zombie, or has a
/// pending SIGKILL, which a busy machine may deliver later.
fn is_dead(pid: u32) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return true;
    };
    let value = |name| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default()
    };
    let is_zombie = value("State:").trim_start().starts_with(['Z', 'X']);
    let pending = ["SigPnd:", "ShdPnd:"].map(|name| u64::from_str_radix(value(name).trim(), 16));
    is_zombie
        || pending
            .into_iter()
            .flatten()
            .any(|signals| signals & SIGKILL != 0)
}
