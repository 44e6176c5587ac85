//! Starts a job on systems that cannot kill a process when its parent dies. If `leasehold` is
//! killed, the lease ends and the job continues.

use std::ffi::{OsStr, OsString};
use std::io::Error;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::program::{Program, refusal};
use crate::outcome::Failure;

/// The job is the command from the start.
#[derive(Debug)]
pub(super) struct Launch;

impl Launch {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self)
    }

    /// The process to start.
    pub(super) fn command(&self, program: &Program<'_>) -> Command {
        let mut command = Command::new(&program.file);
        command.arg0(program.name).args(program.arguments);
        command
    }

    /// The failure of a job that could not be started.
    pub(super) fn refused(name: &OsStr, error: &Error) -> Failure {
        refusal(name, error.kind(), error)
    }

    /// True if the job, which has ended, did not become the command.
    pub(super) fn failed_to_start(&self) -> bool {
        false
    }
}

/// On these systems no job starts as this program.
pub(crate) fn become_job(_: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    None
}
