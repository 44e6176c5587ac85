//! Where the system cannot kill a job whose parent dies. The lock runs out then, and the job runs
//! on.

use std::ffi::{OsStr, OsString};
use std::io::Error;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::program::{Program, refusal};
use crate::outcome::Failure;

/// A job is its command from the start, or it is not started.
#[derive(Debug)]
pub(super) struct Birth;

impl Birth {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self)
    }

    /// Ready to be started.
    pub(super) fn command(&self, program: &Program<'_>) -> Command {
        let mut command = Command::new(&program.file);
        command.arg0(program.name).args(program.arguments);
        command
    }

    /// Of a job that could not be started.
    pub(super) fn refused(name: &OsStr, error: &Error) -> Failure {
        refusal(name, error.kind(), error)
    }

    /// Whether the job, which has ended, was never the command.
    pub(super) fn was_in_vain(&self) -> bool {
        false
    }
}

/// No job begins as this program here.
pub(crate) fn become_job(_: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    None
}
