//! Which file a command is. Looked up before the lock is taken: whoever mistypes takes no lock.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::outcome::{CANNOT_RUN, Failure, NOT_FOUND, Result};

/// Where commands are where no PATH says it.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// What is to be run.
#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) file: PathBuf,
    /// As it was called.
    pub(super) name: &'a OsStr,
    pub(super) arguments: &'a [OsString],
}

impl<'a> Program<'a> {
    /// The program that a shell would run, or why there is none: status 127 or 126.
    pub(super) fn find(command: &'a [OsString]) -> Result<Self> {
        let Some((name, arguments)) = command.split_first() else {
            return Err(Failure::usage("a command is needed after --"));
        };
        let is_path = name.as_bytes().contains(&b'/');
        let file = if is_path {
            look_at(Path::new(name)).map(|()| name.into())
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

/// Of a program that cannot be run.
pub(super) fn refusal(name: &OsStr, kind: ErrorKind, why: impl fmt::Display) -> Failure {
    let name = name.to_string_lossy();
    match kind {
        ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("{name:?}: no such command")),
        ErrorKind::IsADirectory => {
            Failure::new(CANNOT_RUN, format!("{name:?} is a directory, no command"))
        }
        _ => Failure::new(CANNOT_RUN, format!("{name:?} cannot be run: {why}")),
    }
}

/// The first that may be run; else the reason of the first that is there.
fn search(name: &OsStr, path: &OsStr) -> Result<PathBuf, ErrorKind> {
    let mut reason = ErrorKind::NotFound;
    if name.is_empty() {
        return Err(reason);
    }
    for directory in std::env::split_paths(path) {
        // An empty one is the working directory.
        let file = Path::new(".").join(directory).join(name);
        match look_at(&file) {
            Ok(()) => return Ok(file),
            Err(ErrorKind::NotFound) => {}
            Err(why) if reason == ErrorKind::NotFound => reason = why,
            Err(_) => {}
        }
    }
    Err(reason)
}

fn look_at(file: &Path) -> Result<(), ErrorKind> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory),
        Ok(_) if access(file, AccessFlags::X_OK).is_err() => Err(ErrorKind::PermissionDenied),
        Ok(_) => Ok(()),
        // A file where a directory should be.
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(ErrorKind::NotFound),
        Err(error) => Err(error.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_may_be_run_is_found() {
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
