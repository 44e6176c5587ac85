//! The terminal. The job has it while it runs, like a foreground job of a shell.

use std::fs::File;
use std::io::IsTerminal;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Without a terminal, nothing has it, and all calls do nothing.
#[derive(Debug)]
pub(super) struct Terminal {
    /// The terminal of this session, if it has one.
    pub(super) tty: Option<File>,
    /// True if the job uses the terminal, as far as is known. In a pipeline, other processes may.
    pub(super) wanted: bool,
    given_to: Option<Pid>,
    /// The modes of the terminal before the job got it first.
    modes: Option<Termios>,
}

impl Terminal {
    pub(super) fn open() -> Self {
        let tty = File::options().read(true).write(true).open("/dev/tty");
        Self {
            tty: tty.ok(),
            wanted: false,
            given_to: None,
            modes: None,
        }
    }

    /// True if this process group has the terminal: its input and its signals.
    pub(super) fn is_ours(&self) -> bool {
        self.is_of(getpgrp())
    }

    /// True if the group has the terminal.
    pub(super) fn is_of(&self, group: Pid) -> bool {
        self.tty.as_ref().map(tcgetpgrp) == Some(Ok(group))
    }

    /// Gives the terminal to a job that is likely to use it. If input or output is a pipe
    /// (`leasehold run .. | less`), other processes of this group may need the terminal; then the
    /// job gets it when it asks.
    pub(super) fn offer(&mut self, job: Pid) {
        self.wanted = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        self.give(job);
    }

    /// Gives the terminal to a job that uses it.
    pub(super) fn give(&mut self, job: Pid) {
        let is_free = self.wanted && self.is_ours();
        if let Some(tty) = self.tty.as_ref().filter(|_| is_free) {
            self.modes = self.modes.take().or_else(|| tcgetattr(tty).ok());
            self.given_to = tcsetpgrp(tty, job).is_ok().then_some(job);
        }
    }

    /// Takes the terminal back from the job; false if the job did not have it. If the shell has
    /// taken it meanwhile, the shell keeps it.
    pub(super) fn take_back(&mut self) -> bool {
        let (Some(tty), Some(job)) = (&self.tty, self.given_to.take()) else {
            return false;
        };
        let is_free = |group| killpg(group, None) == Err(Errno::ESRCH);
        let holder = tcgetpgrp(tty);
        holder.is_ok_and(|holder| holder == job || is_free(holder))
            && allowed(|| tcsetpgrp(tty, getpgrp()).is_ok())
    }

    /// Restores the modes of the terminal, such as echo, after a job that could not do so itself.
    pub(super) fn restore(&self) {
        if let (Some(tty), Some(modes)) = (&self.tty, &self.modes) {
            allowed(|| tcsetattr(tty, SetArg::TCSANOW, modes).is_ok());
        }
    }

    /// Stops this process, as the terminal would. Stops the other processes of its group, too,
    /// unless they got the same signal (`all_got_signal`). Does nothing if no shell can continue
    /// the group. Returns when this process is continued.
    pub(super) fn stop(&mut self, all_got_signal: bool) {
        self.take_back();
        // This program does not catch TTIN, so it stops.
        let _ = if all_got_signal {
            raise(Signal::SIGTTIN)
        } else {
            killpg(getpgrp(), Signal::SIGTTIN)
        };
    }
}

/// A background process can change the terminal only while it blocks TTOU. It is blocked for no
/// longer, so that no child inherits that.
fn allowed(change: impl FnOnce() -> bool) -> bool {
    let stop = SigSet::from(Signal::SIGTTOU);
    if stop.thread_block().is_err() {
        return false;
    }
    let changed = change();
    let _ = stop.thread_unblock();
    changed
}
