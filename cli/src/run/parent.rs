//! A job that does not outlive `leasehold`.
//!
//! Linux kills a process when its parent dies, if the process itself has asked for that. So the job
//! begins as this very program, which asks, and then becomes the command. It holds for the command
//! alone, not for what it starts, and until it changes its user or group: by a set-user-ID or
//! set-group-ID file, or as root by `runuser`. A command whose file has capabilities is not killed
//! either.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind, PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use super::program::{Program, refusal};
use crate::outcome::{CANNOT_RUN, Failure};

/// This program.
const OURSELVES: &str = "/proc/self/exe";

/// What this program is called with to become a job; then come the parent, the descriptor that it
/// takes bad news by, the file and the name of the command, and its arguments.
const BECOME: &str = "__exec";

/// Tells a job that did not become its command from a command with the same exit status.
#[derive(Debug)]
pub(super) struct Birth {
    news: PipeReader,
    /// The job opens it by way of this process, so that no command ever has it.
    pen: PipeWriter,
}

impl Birth {
    pub(super) fn new() -> Result<Self, Error> {
        let (news, pen) = pipe()?;
        Ok(Self { news, pen })
    }

    /// Ready to be started, by a thread that lives as long as this process: the system takes its
    /// death for that of the parent.
    pub(super) fn command(&self, program: &Program<'_>) -> Command {
        let mut command = Command::new(OURSELVES);
        command
            .arg(BECOME)
            .arg(std::process::id().to_string())
            .arg(self.pen.as_raw_fd().to_string())
            .arg(&program.file)
            .arg(program.name)
            .args(program.arguments);
        command
    }

    /// Of a job that could not be started.
    pub(super) fn refused(name: &OsStr, error: &Error) -> Failure {
        let name = name.to_string_lossy();
        Failure::new(
            CANNOT_RUN,
            format!("{name:?} cannot be started: {OURSELVES}: {error}"),
        )
    }

    /// Whether the job, which has ended, was never the command.
    pub(super) fn was_in_vain(&self) -> bool {
        let mut news = [PollFd::new(self.news.as_fd(), PollFlags::POLLIN)];
        poll(&mut news, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }
}

/// Becomes the job if that is what this process is for. It comes back only in vain.
pub(crate) fn become_job(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if args.nth(1)? != BECOME {
        return None;
    }
    let parent = args.next()?.to_str()?.parse().ok()?;
    let pen = args.next()?.to_str()?.parse::<u32>().ok()?;
    let (file, name) = (args.next()?, args.next()?);
    let error = match bind_to(Pid::from_raw(parent)) {
        Ok(()) => {
            // It closes when the command takes over.
            let pen = File::options()
                .write(true)
                .open(format!("/proc/{parent}/fd/{pen}"));
            let error = Command::new(&file).arg0(&name).args(args).exec();
            // Where this cannot be told, the lock may stay for longer than need be.
            let _ = pen.and_then(|mut pen| pen.write_all(b"in vain"));
            error
        }
        Err(error) => error,
    };
    let kind = error.kind();
    let failure = if kind == ErrorKind::NotFound && Path::new(&file).exists() {
        refusal(&name, ErrorKind::Other, "its interpreter is missing")
    } else {
        refusal(&name, kind, error)
    };
    Some(failure.report())
}

fn bind_to(parent: Pid) -> Result<(), Error> {
    set_pdeathsig(Signal::SIGKILL)?;
    // It may have died before that.
    if getppid() == parent {
        return Ok(());
    }
    Err(Error::other("leasehold was killed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As where /proc is not mounted.
    #[test]
    fn a_job_that_cannot_be_started_is_told_from_a_command_that_is_not_there() {
        let failure = Birth::refused("cmd".as_ref(), &ErrorKind::NotFound.into());
        assert_eq!(failure.status, CANNOT_RUN);
        let expected = "\"cmd\" cannot be started: /proc/self/exe: entity not found";
        assert_eq!(failure.to_string(), expected);
    }
}
