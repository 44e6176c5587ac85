//! The terminal, which the job has while it runs, as a shell's jobs do.

use std::fs::File;
use std::io::IsTerminal;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

#[derive(Debug)]
pub(super) struct Terminal {
    tty: File,
    /// Whether the job uses it, as far as is known. In a pipeline others may.
    wanted: bool,
    given_to: Option<Pid>,
    /// How it was set when it was given for the first time.
    modes: Option<Termios>,
}

impl Terminal {
    /// That of this session, if it has one.
    pub(super) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty");
        tty.ok().map(|tty| Self {
            tty,
            wanted: false,
            given_to: None,
            modes: None,
        })
    }

    /// Whether what is typed comes to this process, and its signals.
    pub(super) fn is_ours(&self) -> bool {
        self.is_of(getpgrp())
    }

    /// Whether a group has it.
    pub(super) fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty) == Ok(group)
    }

    /// Gives it to a job that is likely to use it. Others share our group where input or output is
    /// a pipe (`leasehold run .. | less`), and may need the terminal: then the job gets it when it
    /// asks.
    pub(super) fn offer(&mut self, job: Pid) {
        self.wanted = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        self.give(job);
    }

    /// The job asks for it.
    pub(super) fn is_wanted(&mut self) {
        self.wanted = true;
    }

    /// Gives it to a job that uses it.
    pub(super) fn give(&mut self, job: Pid) {
        if !self.wanted || !self.is_ours() {
            return;
        }
        if self.modes.is_none() {
            self.modes = tcgetattr(&self.tty).ok();
        }
        self.given_to = tcsetpgrp(&self.tty, job).is_ok().then_some(job);
    }

    /// Whether the job had it until now. A shell that has taken it meanwhile keeps it: it saw us
    /// stop.
    pub(super) fn take_back(&mut self) -> bool {
        let Some(job) = self.given_to.take() else {
            return false;
        };
        let is_free = |group| killpg(group, None) == Err(Errno::ESRCH);
        match tcgetpgrp(&self.tty) {
            Ok(holder) if holder == job || is_free(holder) => {
                allowed(|| tcsetpgrp(&self.tty, getpgrp()).is_ok())
            }
            _ => false,
        }
    }

    /// Undoes what a job that could not do it itself has set: lines, echo.
    pub(super) fn restore(&self) {
        if let Some(modes) = &self.modes {
            allowed(|| tcsetattr(&self.tty, SetArg::TCSANOW, modes).is_ok());
        }
    }

    /// Stops this process, and those of its group unless they were told so as it was, as the
    /// terminal would have: not at all if nobody is there to continue it. Comes back when it is
    /// continued.
    pub(super) fn stop(&mut self, all_were_told: bool) {
        self.take_back();
        // Of those signals that stop it is one that is not caught.
        let _ = if all_were_told {
            raise(Signal::SIGTTIN)
        } else {
            killpg(getpgrp(), Signal::SIGTTIN)
        };
    }
}

/// Whoever is not in the foreground may change a terminal only while the signal for it is blocked;
/// no longer than that, so that no child is born with it.
fn allowed(change: impl FnOnce() -> bool) -> bool {
    let stop = SigSet::from(Signal::SIGTTOU);
    if stop.thread_block().is_err() {
        return false;
    }
    let changed = change();
    let _ = stop.thread_unblock();
    changed
}
