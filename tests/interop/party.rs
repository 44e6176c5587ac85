//! A process that holds locks and waits for them: the Java program or the Rust program.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;

use crate::Result;

/// The longest wait for a reply. No command takes nearly as long.
const LONGEST: Duration = Duration::from_secs(60);

/// Which library a process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Java,
    Rust,
}

impl Side {
    /// The error of a thread that unlocks a lock of another.
    pub fn not_held(self) -> &'static str {
        match self {
            Self::Java => "error IllegalMonitorStateException",
            Self::Rust => "error NotHeld",
        }
    }
}

/// A child process, which is killed when this value is dropped.
pub struct Party {
    side: Side,
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
    replies: Arc<Replies>,
}

/// The replies that were not read yet, by thread.
#[derive(Default)]
struct Replies(Mutex<HashMap<u32, Channel>>);

type Channel = (Sender<Reply>, Receiver<Reply>);

impl Replies {
    fn of(&self, thread: u32) -> Channel {
        self.0
            .lock()
            .entry(thread)
            .or_insert_with(unbounded)
            .clone()
    }
}

/// The reply to a command.
#[derive(Clone, Debug)]
pub struct Reply {
    pub result: String,
    /// When this process received the reply.
    pub at: Instant,
}

impl Party {
    pub fn start(side: Side, mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{side:?}: {error}"))?;
        let input = child.stdin.take().ok_or("piped")?;
        let output = child.stdout.take().ok_or("piped")?;
        let replies = Arc::<Replies>::default();
        let sorted = Arc::clone(&replies);
        // Ends with the output of the child.
        thread::spawn(move || sort(output, &sorted));
        Ok(Self {
            side,
            child: Mutex::new(child),
            input: Mutex::new(input),
            replies,
        })
    }

    /// Which library it uses.
    pub fn side(&self) -> Side {
        self.side
    }

    /// One of its threads. The thread starts with its first command.
    pub fn thread(&self, number: u32) -> Actor<'_> {
        Actor {
            party: self,
            number,
        }
    }

    /// Kills the process, which releases nothing.
    pub fn kill(&self) {
        let mut child = self.child.lock();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Passes on each reply, `THREAD MICROSECONDS RESULT`, to those that wait for that thread.
fn sort(output: ChildStdout, replies: &Replies) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let at = Instant::now();
        let mut words = line.splitn(3, ' ');
        let thread = words.next().and_then(|number| number.parse().ok());
        if let (Some(thread), Some(_), Some(result)) = (thread, words.next(), words.next()) {
            let result = result.to_owned();
            let _ = replies.of(thread).0.send(Reply { result, at });
        } else {
            eprintln!("not a reply: {line}");
        }
    }
}

/// A thread of a process. It runs its commands in their order.
#[derive(Clone, Copy)]
pub struct Actor<'a> {
    pub party: &'a Party,
    number: u32,
}

impl<'a> Actor<'a> {
    pub fn side(self) -> Side {
        self.party.side
    }

    /// Another thread of the same process.
    pub fn other_thread(self) -> Self {
        self.party.thread(self.number + 100)
    }

    /// True if this thread of a Java process sleeps until a message arrives.
    pub fn is_parked(self) -> Result<bool> {
        let asking = self.party.thread(0);
        Ok(asking.call(&format!("parked {}", self.number))?.result == "true")
    }

    /// Sends a command, and does not wait for its reply.
    pub fn begin(self, command: &str) -> Result<Pending<'a>> {
        // One write for each line, because other threads write, too.
        let line = format!("{} {command}\n", self.number);
        self.party.input.lock().write_all(line.as_bytes())?;
        Ok(Pending {
            actor: self,
            command: command.to_owned(),
        })
    }

    /// Sends a command and waits for its reply.
    pub fn call(self, command: &str) -> Result<Reply> {
        self.begin(command)?.wait()
    }

    /// Sends a command, whose result has to begin with `result`.
    pub fn expect(self, command: &str, result: &str) -> Result<Reply> {
        self.begin(command)?.expect(result)
    }

    /// Sends a command whose result is a number.
    pub fn number(self, command: &str) -> Result<u64> {
        self.begin(command)?.number()
    }
}

/// A command whose reply was not read yet.
#[must_use]
pub struct Pending<'a> {
    actor: Actor<'a>,
    command: String,
}

impl Pending<'_> {
    pub fn side(&self) -> Side {
        self.actor.side()
    }

    pub fn wait(self) -> Result<Reply> {
        let (_, replies) = self.actor.party.replies.of(self.actor.number);
        let reply = replies.recv_timeout(LONGEST);
        reply.map_err(|_| format!("{:?}: no reply to `{}`", self.actor.side(), self.command).into())
    }

    pub fn expect(self, result: &str) -> Result<Reply> {
        let (side, command) = (self.actor.side(), self.command.clone());
        let reply = self.wait()?;
        if reply.result.starts_with(result) {
            return Ok(reply);
        }
        let found = reply.result;
        Err(format!("{side:?}: `{command}` replied `{found}` instead of `{result}`").into())
    }

    pub fn number(self) -> Result<u64> {
        let reply = self.expect("")?;
        let number = reply.result.parse();
        number.map_err(|_| format!("not a number: {}", reply.result).into())
    }

    /// True if there is no reply yet.
    pub fn is_waiting(&self) -> bool {
        self.actor.party.replies.of(self.actor.number).1.is_empty()
    }
}
