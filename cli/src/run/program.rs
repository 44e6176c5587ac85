//! Finds the file of a command. Before the lock is acquired, so that a misspelt command acquires
//! none.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::outcome::{CANNOT_RUN, Failure, NOT_FOUND, Result};

/// The PATH if the environment has none.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// The program to run.
#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) file: PathBuf,
    /// The name that was given.
    pub(super) name: &'a OsStr,
    pub(super) arguments: &'a [OsString],
}

impl<'a> Program<'a> {
    /// The program that a shell would run. The failure has the status 127 or 126.
    pub(super) fn find(command: &'a [OsString]) -> Result<Self> {
        let Some((name, arguments)) = command.split_first() else {
            return Err(Failure::usage("a command is needed after --"));
        };
        let is_path = name.as_bytes().contains(&b'/');
        let file = if is_path {
            check(Path::new(name)).map(|()| name.into())
        } else {
            let path = std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into());
            search(name, &path)
        };
        match file {
            Ok(file) => Ok(Self {
                file,
                name,
                arguments,
            }),
            Err(why) => Err(refusal(name, why, why)),
        }
    }
}

/// The failure of a program that cannot be run.
pub(super) fn refusal(name: &OsStr, kind: ErrorKind, why: impl fmt::Display) -> Failure {
    let name = name.to_string_lossy();
    match kind {
        ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("{name:?}: no such command")),
        _ => Failure::new(CANNOT_RUN, format!("{name:?} cannot be run: {why}")),
    }
}

/// The first file that can be run, or the reason why the first that exists cannot.
fn search(name: &OsStr, path: &OsStr) -> Result<PathBuf, ErrorKind> {
    let mut reason = ErrorKind::NotFound;
    if name.is_empty() {
        return Err(reason);
    }
    for directory in std::env::split_paths(path) {
        // An empty directory is the working directory.
        let file = Path::new(".").join(directory).join(name);
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(ErrorKind::NotFound) => {}
            Err(why) if reason == ErrorKind::NotFound => reason = why,
            Err(_) => {}
        }
    }
    Err(reason)
}

fn check(file: &Path) -> Result<(), ErrorKind> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory),
        Ok(_) if access(file, AccessFlags::X_OK).is_err() => Err(ErrorKind::PermissionDenied),
        Ok(_) => Ok(()),
        // A part of the path is not a directory.
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(ErrorKind::NotFound),
        Err(error) => Err(error.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_can_be_run_is_found() {
        let found = |name: &str, path: &str| search(name.as_ref(), path.as_ref());
        assert_eq!(found("sh", "/route_error:/bin"), Ok("/bin/sh".into()));
        assert_eq!(
            found("passwd", "/etc:/usr/bin"),
            Ok("/usr/bin/passwd".into())
        );
        assert_eq!(found("passwd", "/etc"), Err(ErrorKind::PermissionDenied));
        assert_eq!(found("bin", "/usr"), Err(ErrorKind::IsADirectory));
        assert_eq!(found("sh", "/etc/passwd"), Err(ErrorKind::NotFound));
        assert_eq!(found("", "/bin"), Err(ErrorKind::NotFound));
    }
}
