//! The process of the command.
//!
//! It has a process group of its own, which all signals are sent to. But if this process has the
//! terminal, the command stays in its group: then the command can read the terminal, whose signals
//! reach both, and signals from here reach the command alone.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use rustix::process::{WaitOptions, wait};

use super::outer_keys::{OUTER_KEYS, keys_with};
use super::parent::{launch, refused};
use super::program::Program;
use crate::args::RunArgs;
use crate::connect::{CREDENTIALS, REMOVED};
use crate::outcome::{CANNOT_RUN, Result};

/// Dropping it kills the processes.
#[derive(Debug)]
pub(super) struct Job {
    process: Pid,
    /// True if the command is the leader of a process group of its own. Otherwise it shares the
    /// terminal with this process.
    pub(super) has_group: bool,
    /// How it ended, as far as the last look knows.
    pub(super) ended: Option<ExitStatus>,
}

impl Job {
    /// Starts the command with the lock's name and token in its environment.
    pub(super) fn start(program: &Program<'_>, args: &RunArgs, token: Option<u64>) -> Result<Self> {
        let mut command = launch(program);
        let has_group = !is_in_foreground();
        if has_group {
            command.process_group(0);
        }
        command.env("LEASEHOLD_KEY", &args.lock.key);
        command.env(OUTER_KEYS, keys_with(&args.lock.key));
        if !args.keep_credentials {
            remove_credentials(&mut command);
        }
        match token {
            Some(token) => command.env("LEASEHOLD_TOKEN", token.to_string()),
            // It may be the token of an outer lock.
            None => command.env_remove("LEASEHOLD_TOKEN"),
        };
        let child = command.spawn();
        let child = child.map_err(|error| refused(program.name, &error))?;
        Ok(Self {
            process: Pid::from_raw(child.id().cast_signed()),
            has_group,
            ended: None,
        })
    }

    /// True if processes of its group remain, zombies included.
    pub(super) fn has_members(&self) -> bool {
        self.has_group && killpg(self.process, None) != Err(Errno::ESRCH)
    }

    /// Sends a signal to the group, or to the command if it has none. False if this process may
    /// not, because the command runs as another user. It is no failure if the processes have ended.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let sent = match self.has_group {
            true => killpg(self.process, signal),
            false if self.ended.is_none() => kill(self.process, signal),
            // Another process may have its id.
            false => Ok(()),
        };
        sent != Err(Errno::EPERM)
    }

    /// Looks whether the command has ended. Also reaps all other children that have ended: orphans
    /// are children of the first process of a container.
    pub(super) fn reap(&mut self) {
        // `nix` has no name for real-time signals, and loses the status of a child that one ended.
        loop {
            let (child, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some((child, status))) => (child.as_raw_pid(), status.as_raw()),
                // Another part of the process has reaped it, so its status is unknown.
                Err(rustix::io::Errno::CHILD) if self.ended.is_none() => {
                    (self.process.as_raw(), i32::from(CANNOT_RUN) << 8)
                }
                Ok(None) | Err(_) => return,
            };
            // Later, an orphan may have its process id.
            if child == self.process.as_raw() && self.ended.is_none() {
                self.ended = Some(ExitStatus::from_raw(status));
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::SIGKILL);
            let _ = waitpid(self.process, None);
        }
    }
}

/// True if this process group has the terminal: its input and its signals.
fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
}

/// Removes the variables that have the password of Redis. A `leasehold` that the command starts
/// must not take another Redis for that, so it learns of it.
fn remove_credentials(command: &mut Command) {
    for name in CREDENTIALS {
        command.env_remove(name);
    }
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if CREDENTIALS.into_iter().any(is_set) {
        command.env(REMOVED, "1");
    }
}

/// The exit status that a shell reports.
pub(super) fn status(ended: ExitStatus) -> u8 {
    let code = ended.code().map(|code| code.to_le_bytes()[0]);
    code.unwrap_or_else(|| signalled(ended.signal().unwrap_or_default()))
}

/// The exit status of a program that this signal ended.
pub(super) fn signalled(signal: i32) -> u8 {
    (128 + signal).to_le_bytes()[0]
}
