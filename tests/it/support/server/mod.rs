//! A private Redis for one test. It can hang, die and come back at its old address. It ends with
//! its value, and tells its log if the test failed.

mod fuse;
mod life;
mod options;
mod port;
mod secured;

use std::ffi::OsString;
use std::path::PathBuf;

use parking_lot::Mutex;
use redis::{Cmd, Connection, FromRedisValue};
use tempfile::TempDir;

use super::process;
use super::timing::{SOON, eventually};
use fuse::Fuse;
use life::{Environment, Life};
use options::Machine;
pub use options::Options;
pub use port::Port;
use secured::Secured;

const HOST: &str = "127.0.0.1";

pub struct Server {
    life: Mutex<Life>,
    /// What its earlier lives logged.
    logged: Mutex<String>,
    arguments: Vec<OsString>,
    environment: Environment,
    port: Port,
    secured: Option<Secured>,
    password: Option<String>,
    directory: TempDir,
    fuse: Fuse,
    _machine: Machine,
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

    /// Where it speaks TLS, if it was [told to](Options::tls).
    pub fn tls_address(&self) -> String {
        let secured = self.secured.as_ref();
        secured.expect("a server with TLS").address()
    }

    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.port.number())
    }

    /// A connection of the test's own, with time-outs.
    pub fn connection(&self) -> Connection {
        connect(&self.url()).expect("the server answers")
    }

    /// One command of the test's own.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let answer = command.query(&mut self.connection());
        answer.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// From here on the server hangs: it takes connections and bytes, and answers nothing.
    pub fn pause(&self) {
        let pid = self.life.lock().pid();
        process::signal(pid, "STOP");
        eventually("the server to stop", || process::is_stopped(pid));
    }

    pub fn resume(&self) {
        process::signal(self.life.lock().pid(), "CONT");
    }

    /// As a crash: no warning, no last write. All its connections are cut, and new ones refused.
    pub fn kill(&self) {
        self.fuse.guards(None);
        self.life.lock().end();
    }

    /// Starts it where it was, after a [`kill`](Self::kill), with what it had written down: all of
    /// it if it [keeps its data](Options::keeps_data), else nothing.
    pub fn start_again(&self) {
        self.start_again_with(&[]);
    }

    /// As [`start_again`](Self::start_again), with more arguments. It answers when this returns,
    /// but may still be loading.
    pub fn start_again_with(&self, more: &[&str]) {
        let mut arguments = self.arguments.clone();
        arguments.extend(more.iter().map(OsString::from));
        let life = Life::start(
            self.port.number(),
            &self.url(),
            &arguments,
            &self.environment,
        );
        let life = life.unwrap_or_else(|| panic!("{} does not start again", self.address()));
        self.fuse.guards(Some(life.pid()));
        let earlier = std::mem::replace(&mut *self.life.lock(), life);
        self.logged.lock().push_str(&earlier.log());
    }

    /// Dies, and comes back without its data.
    pub fn restart_empty(&self) {
        self.kill();
        for entry in std::fs::read_dir(self.directory.path()).expect("our own directory") {
            let path = entry.expect("our own directory").path();
            // The socket is the server's to replace.
            let _ = if path.is_dir() {
                std::fs::remove_dir_all(path)
            } else {
                std::fs::remove_file(path)
            };
        }
        self.start_again();
    }

    /// Dies, and comes back with [its data](Options::keeps_data).
    pub fn restart(&self) {
        self.kill();
        self.start_again();
    }

    fn log(&self) -> String {
        self.logged.lock().clone() + &self.life.lock().log()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of {}:\n{}", self.address(), self.log());
        }
        // Killed here, before another test may have the machine to itself.
        self.fuse.guards(None);
        self.life.get_mut().end();
    }
}

fn url(password: Option<&str>, port: &Port) -> String {
    let login = password.map_or(String::new(), |password| format!(":{password}@"));
    format!("redis://{login}{HOST}:{}", port.number())
}

fn connect(url: &str) -> Option<Connection> {
    let client = redis::Client::open(url).expect("the address is good");
    let connection = client.get_connection_with_timeout(SOON.get()).ok()?;
    connection.set_read_timeout(Some(SOON.get())).ok()?;
    connection.set_write_timeout(Some(SOON.get())).ok()?;
    Some(connection)
}
