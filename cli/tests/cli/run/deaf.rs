//! The output of `leasehold run` is not read.

use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use super::{delete, is_dead};
use crate::program::PATH;
use crate::support::server::Server;
use crate::support::timing::{eventually, eventually_some};

/// Both ends of a pipe that is full.
fn full_pipe() -> (UnixStream, OwnedFd) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    let full = loop {
        if let Err(error) = writer.write(&[b'.'; 4096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    writer.set_nonblocking(false).unwrap();
    (reader, writer.into())
}

/// Killed if the test ends first.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_lost_job_ends_although_its_output_is_not_read() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let script = format!(
        "trap '' TERM; exec 2>/dev/null; echo $$ >'{0}.new'; mv '{0}.new' '{0}'; while :; do \
         sleep 0.02; done",
        pid.display()
    );
    for verbosity in [None, Some("-v"), Some("-vv")] {
        let (_reader, stderr) = full_pipe();
        crate::program::restore_signals();
        let running = Command::new(PATH)
            .args(["--url", &server.url(), "run", "--kill-after", "100ms"])
            .args(verbosity)
            .args(["k", "--", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut running = Started(running);
        let job = eventually_some("the job", || {
            std::fs::read_to_string(&pid).ok()?.trim().parse().ok()
        });
        delete(&server, "k");
        eventually("the end of the job", || is_dead(job));
        let status = eventually_some("the end", || running.0.try_wait().unwrap());
        assert_eq!(status.code(), Some(76));
        std::fs::remove_file(&pid).unwrap();
    }
}
