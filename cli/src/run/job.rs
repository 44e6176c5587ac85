//! The process of the command, with a process group of its own.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, WaitOptions, wait, waitid};

use super::parent::Launch;
use super::program::Program;
use crate::args::RunArgs;
use crate::connect::{CREDENTIALS, REMOVED};
use crate::outcome::{CANNOT_RUN, Result};

/// Dropping it kills the processes.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) group: Pid,
    /// Its process id is the id of the group.
    leader: rustix::process::Pid,
    /// The last change: it ended, was stopped, or was continued.
    change: Option<ExitStatus>,
    launch: Launch,
}

impl Job {
    /// Starts the command with the lock's name and token in its environment.
    pub(super) fn start(program: &Program<'_>, args: &RunArgs, token: Option<u64>) -> Result<Self> {
        let refused = |error| Launch::refused(program.name, &error);
        let launch = Launch::new().map_err(refused)?;
        let mut command = launch.command(program);
        command
            .process_group(0)
            .env("LEASEHOLD_KEY", &args.lock.key);
        if !args.keep_credentials {
            remove_credentials(&mut command);
        }
        match token {
            Some(token) => command.env("LEASEHOLD_TOKEN", token.to_string()),
            // It may be the token of an outer lock.
            None => command.env_remove("LEASEHOLD_TOKEN"),
        };
        let child = command.spawn().map_err(refused)?;
        Ok(Self {
            group: Pid::from_raw(child.id().cast_signed()),
            leader: rustix::process::Pid::from_child(&child),
            change: None,
            launch,
        })
    }

    /// True if the process has ended before it became the command.
    pub(super) fn failed_to_start(&self) -> bool {
        self.ended().is_some() && self.launch.failed_to_start()
    }

    /// How it ended, as far as the last look knows.
    pub(super) fn ended(&self) -> Option<ExitStatus> {
        let has_ended = |change: &ExitStatus| change.code().or(change.signal()).is_some();
        self.change.filter(has_ended)
    }

    /// The signal that had stopped it at the last look.
    pub(super) fn stopped_by(&self) -> Option<Signal> {
        let signal = self.change?.stopped_signal()?;
        Some(Signal::try_from(signal).unwrap_or(Signal::SIGSTOP))
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Leaves the event for the next look.
        let flags = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let stop = || waitid(WaitId::Pid(self.leader), flags);
        self.stopped_by().is_some() || matches!(stop(), Ok(Some(_)))
    }

    /// True if processes of its group remain, zombies included. For a job that has ended.
    pub(super) fn has_members(&self) -> bool {
        killpg(self.group, None) != Err(nix::errno::Errno::ESRCH)
    }

    /// Sends a signal to the group. False if this process may not, because the job runs as another
    /// user. It is no failure if the processes have ended.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        killpg(self.group, signal) != Err(nix::errno::Errno::EPERM)
    }

    /// Looks at the job. True if it ended, was stopped or was continued since the last look.
    ///
    /// Also reaps all other children that have ended: orphans are children of the first process of
    /// a container.
    pub(super) fn has_changed(&mut self) -> bool {
        // `nix` has no name for real-time signals, and loses the status of a child that one ended.
        let flags = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        let mut has_changed = false;
        loop {
            let raw = match wait(flags) {
                Ok(Some((child, status))) if child == self.leader => status.as_raw(),
                Ok(Some(_)) => continue,
                // Another part of the process has reaped it, so its status is unknown.
                Err(Errno::CHILD) if self.ended().is_none() => i32::from(CANNOT_RUN) << 8,
                Ok(None) | Err(_) => return has_changed,
            };
            // Later, an orphan may have its process id.
            if self.ended().is_none() {
                self.change = Some(ExitStatus::from_raw(raw));
                has_changed = true;
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::SIGKILL);
            let _ = nix::sys::wait::waitpid(self.group, None);
        }
    }
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
