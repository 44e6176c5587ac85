//! The real program, started by a test, and what came of it. It ends within a bound, or the test
//! fails.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Once};
use std::thread;

use crossbeam_channel::Receiver;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::support::timing::{SOON, eventually_some};

/// Where the program is, for tests that start it in a way of their own.
pub const PATH: &str = env!("CARGO_BIN_EXE_leasehold");

/// A start of the program, not yet made. Nothing of the environment that concerns the program is
/// passed on.
pub struct Program {
    command: Command,
    input: Vec<u8>,
    keeps_input: bool,
    out: Stdio,
    err: Stdio,
}

/// The program with a Redis to ask.
pub fn leasehold(url: &str) -> Program {
    leasehold_nowhere().env("LEASEHOLD_URL", url)
}

/// The process that starts the tests may ignore signals, as a shell does for background jobs.
/// Children would inherit that; signals that are caught here have their default action in children.
pub fn restore_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            if ignored.unwrap_or_default() & (1 << (signal - 1)) != 0 {
                signal_hook::flag::register(signal, Arc::default()).expect("it can be caught");
            }
        }
    });
}

/// Removes what concerns the program from the environment of a command.
pub fn forget_settings(command: &mut Command) {
    restore_signals();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("LEASEHOLD_") || name == "REDIS_URL" {
            command.env_remove(&*name);
        }
    }
}

/// The program, told of no Redis.
pub fn leasehold_nowhere() -> Program {
    let mut command = Command::new(PATH);
    forget_settings(&mut command);
    Program {
        command,
        input: Vec::new(),
        keeps_input: false,
        out: Stdio::piped(),
        err: Stdio::piped(),
    }
}

impl Program {
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// What it reads from standard input, which ends then. Without this, nothing.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Its standard input stays open until [`Running::end_input`].
    pub fn keep_input(mut self) -> Self {
        self.keeps_input = true;
        self
    }

    /// Its standard output, instead of a pipe that the test reads.
    pub fn writing_to(mut self, out: impl Into<Stdio>) -> Self {
        self.out = out.into();
        self
    }

    /// Its standard error, instead of a pipe that the test reads.
    pub fn failing_to(mut self, err: impl Into<Stdio>) -> Self {
        self.err = err.into();
        self
    }

    /// For what is not foreseen here.
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(&mut self.command);
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn output(self) -> Output {
        self.start().end()
    }

    pub fn start(mut self) -> Running {
        // In the background, also if the tests run at a terminal.
        self.command.process_group(0);
        self.command.stdin(Stdio::piped());
        self.command.stdout(self.out).stderr(self.err);
        let mut child = self.command.spawn().expect("the program is built");
        let mut stdin = child.stdin.take();
        let kept = if self.keeps_input { stdin.take() } else { None };
        if let Some(mut stdin) = stdin {
            let input = self.input;
            // A program that does not read all of it is no failure of the test.
            thread::spawn(move || drop(stdin.write_all(&input)));
        }
        Running {
            out: read(child.stdout.take()),
            err: read(child.stderr.take()),
            input: kept,
            child,
        }
    }
}

/// All that comes, in pieces as they come.
fn read(from: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, pieces) = crossbeam_channel::unbounded();
    thread::spawn(move || {
        let Some(mut from) = from else { return };
        let mut piece = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            if sender.send(piece[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}

/// Both ends of a pipe that is full.
pub fn full_pipe() -> (UnixStream, OwnedFd) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    writer.set_nonblocking(false).unwrap();
    (reader, writer.into())
}

/// The program at work. Killed if the test ends first.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    out: Receiver<Vec<u8>>,
    err: Receiver<Vec<u8>>,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// By name, as `kill` knows it: `TERM`.
    pub fn signal(&self, name: &str) {
        crate::support::process::signal(self.pid(), name);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_none()
    }

    /// Writes to its standard input.
    #[track_caller]
    pub fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("it is kept");
        input.write_all(text.as_bytes()).expect("it is open");
    }

    pub fn end_input(&mut self) {
        self.input.take().expect("it is kept");
    }

    /// Waits until it has written `on`, and no more.
    #[track_caller]
    pub fn when_on(self) -> Self {
        assert_eq!(self.next_output(), "on\n");
        self
    }

    /// What it writes next to standard output; empty if that is closed.
    #[track_caller]
    pub fn next_output(&self) -> String {
        next(&self.out)
    }

    /// The same of standard error.
    #[track_caller]
    pub fn next_error(&self) -> String {
        next(&self.err)
    }

    /// Its end, which comes soon, and what was not read before.
    #[track_caller]
    pub fn end(mut self) -> Output {
        let status = eventually_some("the program to end", || {
            self.child.try_wait().expect("our own child")
        });
        Output {
            status,
            out: rest(&self.out),
            err: String::from_utf8_lossy(&rest(&self.err)).into_owned(),
        }
    }
}

#[track_caller]
fn next(pieces: &Receiver<Vec<u8>>) -> String {
    use crossbeam_channel::RecvTimeoutError::{Disconnected, Timeout};
    match pieces.recv_timeout(SOON.get()) {
        Ok(piece) => String::from_utf8_lossy(&piece).into_owned(),
        Err(Disconnected) => String::new(),
        Err(Timeout) => panic!("it writes nothing"),
    }
}

/// What comes until the end; the pipe of a program that has ended ends soon, unless others have it,
/// too.
#[track_caller]
fn rest(pieces: &Receiver<Vec<u8>>) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match pieces.recv_timeout(SOON.get()) {
            Ok(piece) => all.extend(piece),
            Err(error) => {
                assert!(
                    error.is_disconnected(),
                    "another process keeps the pipe open"
                );
                return all;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How the program ended.
#[derive(Debug)]
pub struct Output {
    status: ExitStatus,
    pub out: Vec<u8>,
    pub err: String,
}

impl Output {
    /// Its exit status, if no signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.out.clone()).expect("text")
    }

    pub fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    /// It ended with this status, and wrote exactly this.
    #[track_caller]
    pub fn expect_all(self, code: i32, out: &str, err: &str) {
        let output = self.expect(code);
        assert_eq!((&*output.text(), &*output.err), (out, err));
    }

    /// It ended with this status; else its output is in the failure.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{self:#?}");
        self
    }

    /// It failed with this status, nothing on standard output, and one line on standard error that
    /// has each of these words.
    #[track_caller]
    pub fn expect_refusal(self, code: i32, words: &[&str]) -> Self {
        let output = self.expect_failure(code, words);
        assert_eq!(output.text(), "");
        output
    }

    /// Expects that `leasehold run` ended its command: a line has these words, which are the
    /// reason, and the status of the command.
    #[track_caller]
    pub fn expect_ended(self, code: i32, words: &[&str], of_command: i32) -> Self {
        let output = self.expect(code);
        let ended = format!("the command ended with status {of_command}");
        let lines: Vec<&str> = output.err.lines().collect();
        let [why, end] = lines[..] else {
            panic!("not two lines in {output:#?}");
        };
        let has_words = words.iter().all(|word| why.contains(word));
        assert!(has_words && end.contains(&ended), "{output:#?}");
        output
    }

    /// It failed with this status and one line on standard error that has each of these words.
    #[track_caller]
    pub fn expect_failure(self, code: i32, words: &[&str]) -> Self {
        let output = self.expect(code);
        assert_eq!(output.err.lines().count(), 1, "{output:#?}");
        for word in words {
            assert!(output.err.contains(word), "no {word:?} in {output:#?}");
        }
        output
    }
}
