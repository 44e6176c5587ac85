//! A process that runs one test of this binary again, in a role.
//!
//! It sends lines to its parent on its output, and gets its input as arguments and as lines on its
//! input.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use crossbeam_channel::{Receiver, unbounded};

use super::process;
use super::timing::{LONGEST_TEST, SOON, eventually, millis};

const ROLE: &str = "LEASEHOLD_TEST_ROLE";
const ARGUMENTS: &str = "LEASEHOLD_TEST_ARGUMENTS";
/// The prefix of every line to the parent, because the test harness writes to the same output.
const MARK: &str = "child> ";

/// In a child: its role, and the arguments.
pub fn role() -> Option<(String, Vec<String>)> {
    let role = std::env::var(ROLE).ok()?;
    let arguments = std::env::var(ARGUMENTS).expect("set with the role");
    Some((role, arguments.split('\n').map(str::to_owned).collect()))
}

/// In a child: sends a line to the parent.
pub fn send_line(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // The harness may have written an incomplete line.
    writeln!(out, "\n{MARK}{line}").expect("the parent listens");
    out.flush().expect("the parent listens");
}

/// In a child: waits for the parent's next line.
pub fn read_line() -> String {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("the parent lives");
    line.trim().to_owned()
}

pub fn myself() -> PathBuf {
    std::env::current_exe().expect("a test binary")
}

/// A child process. Killed when dropped.
pub struct Process {
    role: &'static str,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    /// Runs the test `entry` of this binary, or by a program whose arguments end with it.
    pub fn spawn(
        mut command: Command,
        entry: &str,
        role: &'static str,
        arguments: &[&str],
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        let mut child = command
            .args([entry, "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(ARGUMENTS, arguments.join("\n"))
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary can be run again");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = unbounded();
        // Ends with the child's output.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK) {
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        Self {
            role,
            child,
            input,
            lines,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line from the child.
    #[track_caller]
    pub fn read_line(&self) -> String {
        let line = self.lines.recv_timeout(SOON.get());
        line.unwrap_or_else(|_| panic!("{} sent no line; its errors are above", self.role))
    }

    pub fn send_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the child lives");
    }

    /// Kills the child, which runs no destructor.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.child.id(), name);
    }

    /// Stops the child until it is sent `CONT`.
    pub fn pause(&self) {
        self.signal("STOP");
        eventually("the child to stop", || process::is_stopped(self.child.id()));
    }

    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Waits for its end, which must be a success, and returns the lines that it sent.
    #[track_caller]
    pub fn finish(mut self) -> Vec<String> {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(
                start.elapsed() < LONGEST_TEST.get(),
                "{} does not end",
                self.role
            );
            std::thread::sleep(millis(5));
        };
        assert!(
            status.success(),
            "{} failed; its errors are above",
            self.role
        );
        self.lines.iter().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
