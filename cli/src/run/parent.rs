//! Starts a job that does not outlive `leasehold`.
//!
//! Linux kills a process when its parent dies, if the process itself has asked for that. So the job
//! starts as this program, which asks, and then becomes the command. This has no effect on the
//! processes that the command starts. It ends when the command changes its user or group: by a
//! set-user-ID or set-group-ID file, or as root by `runuser`. A command whose file has capabilities
//! is not killed either.

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use nix::unistd::{Pid, getppid};

use super::program::{Program, refusal};
use crate::outcome::{CANNOT_RUN, Failure};

/// Other systems do not kill a process when its parent dies. If `leasehold` is killed there, the
/// lease ends and the job continues.
const IS_BOUND: bool = cfg!(target_os = "linux");

/// The file of this program.
const OURSELVES: &str = "/proc/self/exe";

/// The first argument of this program when it is to become a job. Then follow the parent, the file
/// and the name of the command, and the arguments of the command.
const BECOME: &str = "__exec";

/// The process to start. The thread that starts it must live as long as this process, because Linux
/// takes the end of that thread for the death of the parent. On other systems, the job is the
/// command from the start.
pub(super) fn launch(program: &Program<'_>) -> Command {
    let mut command = if IS_BOUND {
        let mut command = Command::new(OURSELVES);
        command.arg(BECOME).arg(std::process::id().to_string());
        command.arg(&program.file).arg(program.name);
        command
    } else {
        let mut command = Command::new(&program.file);
        command.arg0(program.name);
        command
    };
    command.args(program.arguments);
    command
}

/// The failure of a job that could not be started.
pub(super) fn refused(name: &OsStr, error: &Error) -> Failure {
    if !IS_BOUND {
        return refusal(name, error.kind(), error);
    }
    let name = name.to_string_lossy();
    let message = format!("{name:?} cannot be started: {OURSELVES}: {error}");
    Failure::new(CANNOT_RUN, message)
}

/// Becomes the command if this process was started for that. Returns only after a failure.
pub(crate) fn become_job(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if args.nth(1)? != BECOME {
        return None;
    }
    let parent = args.next()?.to_str()?.parse().ok()?;
    let (file, name) = (args.next()?, args.next()?);
    let bound = bind_to(Pid::from_raw(parent)).err();
    let error = bound.unwrap_or_else(|| Command::new(&file).arg0(&name).args(args).exec());
    let kind = error.kind();
    let failure = if kind == ErrorKind::NotFound && Path::new(&file).exists() {
        refusal(&name, ErrorKind::Other, "its interpreter is missing")
    } else {
        refusal(&name, kind, error)
    };
    Some(failure.report())
}

fn bind_to(parent: Pid) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    // The parent may have died before.
    if getppid() == parent {
        return Ok(());
    }
    Err(Error::other("leasehold was killed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For example because /proc is not mounted.
    #[test]
    fn a_job_that_cannot_start_is_told_from_a_missing_command() {
        let failure = refused("cmd".as_ref(), &ErrorKind::NotFound.into());
        assert_eq!(failure.status, CANNOT_RUN);
        let expected = "\"cmd\" cannot be started: /proc/self/exe: entity not found";
        assert_eq!(failure.to_string(), expected);
    }
}
