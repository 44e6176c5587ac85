//! A private Redis for one test. It can hang, die and restart at the same address. It ends with its
//! value, and prints its log if the test failed.

mod options;
mod port;
pub mod program;
pub mod queries;
mod reaper;
mod server_process;
mod time_limit;
mod tls_port;

use std::path::{Path, PathBuf};
use std::thread::{self, ScopedJoinHandle};

use parking_lot::Mutex;
use redis::{Cmd, Connection, FromRedisValue};
use tempfile::TempDir;

use super::certificates::{Identity, TRUSTED};
use super::timing::{SOON, eventually, eventually_some, millis};
use super::{process, timing};
pub use options::Options;
pub use port::Port;
use server_process::{ServerProcess, StartOptions};
pub use time_limit::TimeLimit;
use tls_port::TlsPort;

const HOST: &str = "127.0.0.1";

/// What the test did to it last.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Up,
    Paused,
    Killed,
}

pub struct Server {
    process: Mutex<ServerProcess>,
    /// The logs of its earlier processes.
    logged: Mutex<String>,
    options: StartOptions,
    port: Port,
    tls_port: Option<TlsPort>,
    password: Option<String>,
    directory: TempDir,
    state: Mutex<State>,
    _time_limit: Option<TimeLimit>,
}

impl Server {
    pub fn start() -> Self {
        Options::default().start()
    }

    pub fn options() -> Options {
        Options::default()
    }

    pub fn url(&self) -> String {
        url(self.password.as_deref(), &self.port)
    }

    /// Its TLS address, if it was [started with TLS](Options::tls).
    pub fn tls_address(&self) -> String {
        let tls_port = self.tls_port.as_ref();
        tls_port.expect("a server with TLS").address()
    }

    /// Starts several servers concurrently.
    pub fn start_all(options: Vec<Options>) -> Vec<Self> {
        thread::scope(|scope| {
            let start = |one: Options| scope.spawn(|| one.start());
            let starting: Vec<_> = options.into_iter().map(start).collect();
            let joined = starting.into_iter().map(ScopedJoinHandle::join);
            let started: Result<_, _> = joined.collect();
            started.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.directory().join("socket")
    }

    /// The directory of its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.port.number())
    }

    /// The test's own connection, with timeouts. Sentinels cut all connections of a server,
    /// including new ones, when they change its role; so this retries.
    pub fn connection(&self) -> Connection {
        eventually_some("the server to reply", || connect(&self.url()))
    }

    /// Runs one command on the test's own connection. `None` if the server is busy or down.
    pub fn try_ask<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let mut connection = connect(&self.url())?;
        command.query(&mut connection).ok()
    }

    /// Runs one command on the test's own connection.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let answer = command.query(&mut self.connection());
        answer.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Runs one command, whose words are separated by spaces.
    #[track_caller]
    pub fn run(&self, command: &str) {
        self.query::<()>(command);
    }

    /// From now on the server hangs: it accepts connections and bytes, and replies nothing.
    pub fn pause(&self) {
        *self.state.lock() = State::Paused;
        let pid = self.process.lock().pid();
        process::signal(pid, "STOP");
        eventually("the server to stop", || process::is_stopped(pid));
    }

    pub fn resume(&self) {
        process::signal(self.process.lock().pid(), "CONT");
        *self.state.lock() = State::Up;
    }

    /// Neither killed nor paused.
    pub fn is_up(&self) -> bool {
        *self.state.lock() == State::Up
    }

    /// Undoes a [`pause`](Self::pause) or a [`kill`](Self::kill), if there was one.
    pub fn bring_back(&self) {
        let state = *self.state.lock();
        match state {
            State::Up => {}
            State::Paused => self.resume(),
            State::Killed => self.start_again(),
        }
    }

    /// Kills it, without a last write. All its connections are cut, and new ones refused.
    pub fn kill(&self) {
        *self.state.lock() = State::Killed;
        self.process.lock().end();
    }

    /// Starts it again after a [`kill`](Self::kill), with the data on its disk: all of it if it
    /// [keeps its data](Options::keeps_data), otherwise none.
    pub fn start_again(&self) {
        let process = ServerProcess::start(&self.options);
        let process = process.unwrap_or_else(|| panic!("{} does not start again", self.address()));
        *self.state.lock() = State::Up;
        let earlier = std::mem::replace(&mut *self.process.lock(), process);
        self.logged.lock().push_str(&earlier.log());
    }

    /// Kills it, and starts it without its data.
    pub fn restart_empty(&self) {
        self.kill();
        for entry in std::fs::read_dir(self.directory()).expect("our own directory") {
            let path = entry.expect("our own directory").path();
            // The server replaces its socket itself.
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
        self.start_again();
    }

    /// Kills it, and starts it with [its data](Options::keeps_data).
    pub fn restart(&self) {
        self.kill();
        self.start_again();
    }

    fn log(&self) -> String {
        self.logged.lock().clone() + &self.process.lock().log()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("log of {}:\n{}", self.address(), self.log());
        }
        self.process.get_mut().end();
    }
}

fn url(password: Option<&str>, port: &Port) -> String {
    let login = password.map_or(String::new(), |password| format!(":{password}@"));
    format!("redis://{login}{HOST}:{}", port.number())
}

fn connect(url: &str) -> Option<Connection> {
    let client = redis::Client::open(url).expect("the address is valid");
    let connection = client.get_connection_with_timeout(SOON.get()).ok()?;
    connection.set_read_timeout(Some(SOON.get())).ok()?;
    connection.set_write_timeout(Some(SOON.get())).ok()?;
    Some(connection)
}
