//! The command at work: a child with a process group of its own.

use std::os::unix::process::CommandExt;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, WaitOptions, waitid, waitpgid, waitpid};

use super::parent::Birth;
use super::program::Program;
use crate::outcome::{CANNOT_RUN, Result};

/// What a status is that a signal made: so much and its number.
pub(super) const SIGNALLED: i32 = 128;

/// Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Job {
    group: Pid,
    /// Its number is that of the group.
    leader: rustix::process::Pid,
    state: State,
    birth: Birth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Stopped(Signal),
    Ended(Ending),
}

/// What ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Itself, with this status.
    Exit(u8),
    /// A signal, by its number: not all have names.
    Signal(i32),
}

impl Ending {
    /// Whether it was one of those signals that tell a job to end.
    pub(super) fn is_told(self) -> bool {
        let told = [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
        ];
        told.iter()
            .any(|&signal| self == Self::Signal(signal as i32))
    }

    /// As shells tell it.
    pub(super) fn status(self) -> u8 {
        match self {
            Self::Exit(status) => status,
            Self::Signal(signal) => low_byte(SIGNALLED + signal),
        }
    }
}

impl Job {
    /// Starts it, with the lock's name and token in its environment.
    pub(super) fn start(program: &Program<'_>, key: &str, token: Option<u64>) -> Result<Self> {
        let refused = |error| Birth::refused(program.name, &error);
        let birth = Birth::new().map_err(refused)?;
        let mut command = birth.command(program);
        command.process_group(0).env("LEASEHOLD_KEY", key);
        match token {
            Some(token) => command.env("LEASEHOLD_TOKEN", token.to_string()),
            // Perhaps that of a lock around this one.
            None => command.env_remove("LEASEHOLD_TOKEN"),
        };
        let child = command.spawn().map_err(refused)?;
        Ok(Self {
            group: Pid::from_raw(child.id().cast_signed()),
            leader: rustix::process::Pid::from_child(&child),
            state: State::Running,
            birth,
        })
    }

    /// Whether it has ended without having become its command.
    pub(super) fn was_in_vain(&self) -> bool {
        matches!(self.state, State::Ended(_)) && self.birth.was_in_vain()
    }

    pub(super) fn group(&self) -> Pid {
        self.group
    }

    pub(super) fn is_stopped(&self) -> bool {
        // Also if the next look is to tell it.
        let flags = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let news = || waitid(WaitId::Pid(self.leader), flags);
        self.was_stopped() || matches!(news(), Ok(Some(_)))
    }

    /// The same as of the last look.
    pub(super) fn was_stopped(&self) -> bool {
        matches!(self.state, State::Stopped(_))
    }

    /// Whether some of its group are there still, if only to be buried. For a job that has ended.
    pub(super) fn has_members(&self) -> bool {
        // As the first process of a container this one has the orphans, too, and nobody else buries
        // them.
        while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
        killpg(self.group, None) != Err(nix::errno::Errno::ESRCH)
    }

    /// To all of its group: false if none of them may be sent one, because they run as another
    /// user. That they may be gone is no failure.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        killpg(self.group, signal) != Err(nix::errno::Errno::EPERM)
    }

    /// What has become of it, if that changed since the last look.
    pub(super) fn look(&mut self) -> Option<State> {
        if matches!(self.state, State::Ended(_)) {
            return None;
        }
        // Not that of `nix`: it reaps a child that a real-time signal ended, and has no name for
        // that.
        let flags = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        let news = match waitpid(Some(self.leader), flags) {
            Ok(news) => news?.1,
            Err(Errno::CHILD) => {
                // Somebody else has reaped it, who knows its status.
                self.state = State::Ended(Ending::Exit(CANNOT_RUN));
                return Some(self.state);
            }
            Err(_) => return None,
        };
        self.state = if let Some(status) = news.exit_status() {
            State::Ended(Ending::Exit(low_byte(status)))
        } else if let Some(signal) = news.terminating_signal() {
            State::Ended(Ending::Signal(signal))
        } else if let Some(signal) = news.stopping_signal() {
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
