//! `leasehold run`.

mod another_user;
mod bad_input;
mod contention;
mod deployments;
mod limits;
mod loss;
mod nested;
mod no_reply;
mod process_one;
mod signals;
mod status;
pub mod terminal;
mod waiting_message;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::locks::command;
use crate::program::{Program, Running, leasehold};
use crate::support::server::Server;

/// A script's part: goes on until a signal ends it.
const FOREVER: &str = "exec 2>/dev/null; while :; do sleep 0.02; done";

/// The command, up to the key.
fn run(server: &Server) -> Program {
    leasehold(&server.url()).arg("run")
}

/// The command with options, the lock `k`, and a script of the shell that runs under it.
fn job(server: &Server, options: &str, script: &str) -> Program {
    let options = options.split(' ').filter(|option| !option.is_empty());
    run(server).args(options).locked("k", script)
}

impl Program {
    /// The rest: a lock, and a script of the shell that runs under it.
    fn locked(self, key: &str, script: &str) -> Self {
        self.args([key, "--", "sh", "-c", script])
    }

    /// `run`, a lock that the job does not wait for, and a script.
    fn run_now(self, key: &str, script: &str) -> Self {
        self.args(["run", "--no-wait"]).locked(key, script)
    }
}

/// True if this user, on this machine, can have this program with these options start others.
fn can_wrap(by: &str, options: &[&str]) -> bool {
    let output = Command::new(by).args(options).arg("true").output();
    output.is_ok_and(|output| output.status.success())
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

fn delete(server: &Server, key: &str) {
    let deleted: u32 = server.ask(redis::cmd("DEL").arg(key));
    assert_eq!(deleted, 1, "{key} was held");
}

/// What Redis leaves of a key: milliseconds, or less than zero for none.
fn time_to_live(server: &Server, key: &str) -> i64 {
    server.ask(&command(&format!("PTTL {key}")))
}

/// A file that is not there yet, for which scripts wait.
pub struct Over {
    directory: tempfile::TempDir,
    file: PathBuf,
}

impl Over {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("over");
        Self { directory, file }
    }

    /// A script's part: goes on until the file is there.
    pub fn until(&self) -> String {
        let file = self.file.display();
        format!("while [ ! -e {file} ]; do sleep 0.02; done")
    }

    /// Creates the file, so that the scripts go on.
    pub fn create(&self) {
        std::fs::write(&self.file, "").unwrap();
    }

    /// Another file of the directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// A job that has the lock `k` until then.
fn holder(server: &Server, over: &Over) -> Running {
    let script = format!("echo on; {}", over.until());
    job(server, "", &script).start().when_on()
}

/// The process that a job says first.
fn said_pid(running: &Running) -> u32 {
    let said = running.next_output();
    said.trim().parse().unwrap_or_else(|_| panic!("{said}"))
}

/// True if the process runs no more instructions of its program: it is gone, a zombie, or has a
/// pending SIGKILL, which a busy machine may deliver later.
fn is_dead(pid: u32) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return true;
    };
    let value = |name| {
        let mut lines = status.lines();
        let value = lines.find_map(|line| line.strip_prefix(name));
        value.unwrap_or_default().trim()
    };
    let is_pending = |name| {
        let signals = u64::from_str_radix(value(name), 16);
        signals.is_ok_and(|signals| signals & SIGKILL != 0)
    };
    value("State:").starts_with(['Z', 'X']) || is_pending("SigPnd:") || is_pending("ShdPnd:")
}
