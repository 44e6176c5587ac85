//! The process of the command, with a process group of its own.

use std::os::unix::process::CommandExt;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, WaitOptions, waitid, waitpgid, waitpid};

use super::parent::Launch;
use super::program::Program;
use crate::outcome::{CANNOT_RUN, Result};

/// The exit status of a process that signal n ended is this and n.
pub(super) const SIGNALLED: i32 = 128;

/// Dropping it kills the processes.
#[derive(Debug)]
pub(super) struct Job {
    group: Pid,
    /// Its process id is the id of the group.
    leader: rustix::process::Pid,
    state: State,
    launch: Launch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Stopped(Signal),
    Ended(Ending),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It exited with this status.
    Exit(u8),
    /// A signal ended it. The number, because not all signals have names.
    Signal(i32),
}

impl Ending {
    /// True for a signal that asks a job to end.
    pub(super) fn is_requested(self) -> bool {
        let told = [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
        ];
        told.iter()
            .any(|&signal| self == Self::Signal(signal as i32))
    }

    /// The exit status that a shell reports.
    pub(super) fn status(self) -> u8 {
        match self {
            Self::Exit(status) => status,
            Self::Signal(signal) => low_byte(SIGNALLED + signal),
        }
    }
}

impl Job {
    /// Starts the command with the lock's name and token in its environment.
    pub(super) fn start(program: &Program<'_>, key: &str, token: Option<u64>) -> Result<Self> {
        let refused = |error| Launch::refused(program.name, &error);
        let launch = Launch::new().map_err(refused)?;
        let mut command = launch.command(program);
        command.process_group(0).env("LEASEHOLD_KEY", key);
        match token {
            Some(token) => command.env("LEASEHOLD_TOKEN", token.to_string()),
            // It may be the token of an outer lock.
            None => command.env_remove("LEASEHOLD_TOKEN"),
        };
        let child = command.spawn().map_err(refused)?;
        Ok(Self {
            group: Pid::from_raw(child.id().cast_signed()),
            leader: rustix::process::Pid::from_child(&child),
            state: State::Running,
            launch,
        })
    }

    /// True if the process has ended before it became the command.
    pub(super) fn failed_to_start(&self) -> bool {
        matches!(self.state, State::Ended(_)) && self.launch.failed_to_start()
    }

    pub(super) fn group(&self) -> Pid {
        self.group
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Leaves the event for the next look.
        let flags = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let stop = || waitid(WaitId::Pid(self.leader), flags);
        self.was_stopped() || matches!(stop(), Ok(Some(_)))
    }

    /// True if it was stopped at the last look.
    pub(super) fn was_stopped(&self) -> bool {
        matches!(self.state, State::Stopped(_))
    }

    /// True if processes of its group remain, zombies included. For a job that has ended.
    pub(super) fn has_members(&self) -> bool {
        // As the first process of a container, this one must also reap orphans.
        while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
        killpg(self.group, None) != Err(nix::errno::Errno::ESRCH)
    }

    /// Sends a signal to the group. False if this process may not, because the job runs as another
    /// user. It is no failure if the processes have ended.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        killpg(self.group, signal) != Err(nix::errno::Errno::EPERM)
    }

    /// The state of the job, if it changed since the last look.
    pub(super) fn look(&mut self) -> Option<State> {
        if matches!(self.state, State::Ended(_)) {
            return None;
        }
        // `nix` has no name for real-time signals, and loses the status of a child that one ended.
        let flags = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        let status = match waitpid(Some(self.leader), flags) {
            Ok(change) => change?.1,
            Err(Errno::CHILD) => {
                // Another part of the process has reaped it, so its status is unknown.
                self.state = State::Ended(Ending::Exit(CANNOT_RUN));
                return Some(self.state);
            }
            Err(_) => return None,
        };
        self.state = if let Some(code) = status.exit_status() {
            State::Ended(Ending::Exit(low_byte(code)))
        } else if let Some(signal) = status.terminating_signal() {
            State::Ended(Ending::Signal(signal))
        } else if let Some(signal) = status.stopping_signal() {
            State::Stopped(Signal::try_from(signal).unwrap_or(Signal::SIGSTOP))
        } else {
            State::Running
        };
        Some(self.state)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !matches!(self.state, State::Ended(_)) {
            self.signal(Signal::SIGKILL);
            let _ = nix::sys::wait::waitpid(self.group, None);
        }
    }
}

fn low_byte(status: i32) -> u8 {
    status.to_le_bytes()[0]
}
