//! The server, a Java process and a Rust process.

use std::process::Command;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::{Cmd, Connection, FromRedisValue, cmd};

use crate::party::{Actor, Party, Side};
use crate::support::{Server, unique};
use crate::{LEASE, Result, worker};

/// The longest wait for a condition.
const SOON: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);

pub struct Stage {
    classpath: String,
    server: Server,
    connection: Mutex<Connection>,
    pub java: Party,
    pub rust: Party,
}

/// The threads of a scenario, and its lock.
#[derive(Clone, Copy)]
pub struct Cast<'a> {
    pub stage: &'a Stage,
    pub holder: Actor<'a>,
    /// A thread of the other process.
    pub waiter: Actor<'a>,
    /// The kind of lock: a word of the commands.
    pub kind: &'static str,
}

impl Stage {
    pub fn open(classpath: &str) -> Result<Self> {
        let server = Server::options().everlasting().start();
        let connection = Mutex::new(server.connection());
        let [java, rust] =
            [Side::Java, Side::Rust].map(|side| start(side, classpath, &server, LEASE));
        let stage = Self {
            classpath: classpath.to_owned(),
            server,
            connection,
            java: java?,
            rust: rust?,
        };
        stage.warm_up()?;
        Ok(stage)
    }

    /// Starts both processes again, because a failed scenario may have left threads that wait.
    pub fn restart(&mut self) -> Result<()> {
        self.java = self.start(Side::Java, LEASE)?;
        self.rust = self.start(Side::Rust, LEASE)?;
        self.warm_up()
    }

    fn warm_up(&self) -> Result<()> {
        let name = unique("warm-up");
        for party in [&self.java, &self.rust] {
            party.thread(1).number(&format!("pairs plain {name} 200"))?;
        }
        Ok(())
    }

    /// Starts another process, which can be killed and whose watchdog renews this lease.
    pub fn start(&self, side: Side, lease: Duration) -> Result<Party> {
        start(side, &self.classpath, &self.server, lease)
    }

    /// Runs one command on the server.
    pub fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        Ok(command.query(&mut *self.connection.lock())?)
    }

    /// Waits until a thread waits for a message about this name.
    ///
    /// A Java thread subscribes, sends its request again and then sleeps. Some messages wake only
    /// threads that sleep, so the process itself has to say that the thread does. A Rust thread
    /// misses no message after the subscription. While it waits for another thread of its own
    /// process, it has none.
    pub fn await_waiting(&self, actor: Actor<'_>, name: &str) -> Result<()> {
        let what = format!("a thread of {:?} to wait for {name}", actor.side());
        match actor.side() {
            Side::Java => self.eventually(&what, || actor.is_parked()),
            Side::Rust => {
                let mut channels = cmd("PUBSUB");
                channels.arg("CHANNELS").arg(format!("*{{{name}}}*"));
                self.eventually(&what, || {
                    // It is called if a client of its library has the lock. Their UUIDs have
                    // version 8.
                    let owners: Vec<String> = self.ask(cmd("HKEYS").arg(name)).unwrap_or_default();
                    let is_called = owners.iter().any(|owner| owner.get(14..15) == Some("8"));
                    let line = format!("leasehold_line:{{{name}}}");
                    Ok(!self.ask::<Vec<String>>(&channels)?.is_empty()
                        || is_called && self.ask::<u32>(cmd("ZCARD").arg(line))? > 0)
                })
            }
        }
    }

    pub fn eventually(&self, what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !condition()? {
            if start.elapsed() > SOON {
                return Err(format!("timed out waiting for {what}").into());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

fn start(side: Side, classpath: &str, server: &Server, lease: Duration) -> Result<Party> {
    let mut command = match side {
        Side::Java => {
            let mut java = Command::new("java");
            // The client compiler is enough for tests, and starts faster. Redisson logs nothing.
            java.args([
                "-XX:TieredStopAtLevel=1",
                "-Dslf4j.internal.verbosity=ERROR",
            ])
            .args(["-cp", classpath, "interop.Main"]);
            java
        }
        Side::Rust => {
            let mut rust = Command::new(std::env::current_exe()?);
            rust.arg(worker::ROLE);
            rust
        }
    };
    command.arg(server.url()).arg(lease.as_millis().to_string());
    Party::start(side, command)
}
