//! A private Redis server on its own core.

use std::{
    env,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use leasehold::LockClient;
use tempfile::TempDir;

/// Some systems have only valkey-server, a drop-in replacement.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub const SERVER_CORE: &str = "0";
pub const CLIENT_CORE: &str = "1";

/// Pins this process and its future children to one core; the server has the other.
pub fn pin_clients() {
    pin_to(CLIENT_CORE);
}

/// Pins future children to the servers' core, until the clients are pinned.
pub fn pin_servers() {
    pin_to(SERVER_CORE);
}

/// Pins this process to a core, unless that is turned off.
pub fn pin_to(core: &str) {
    if pins() {
        let process = std::process::id().to_string();
        let _ = run_quietly(Command::new("taskset").args(["-a", "-c", "-p", core, &process]));
    }
}

/// Lets this process and its future children open more files, if the system permits it.
pub fn open_many_files() {
    let process = std::process::id().to_string();
    let limit = ["--nofile=16384:", "--pid", &process];
    let _ = run_quietly(Command::new("prlimit").args(limit));
}

/// True if `taskset` is installed and both cores are usable, unless LEASEHOLD_BENCH_PIN=0.
pub fn pins() -> bool {
    let usable = |core| run_quietly(Command::new("taskset").args(["-c", core, "true"]));
    env::var("LEASEHOLD_BENCH_PIN").as_deref() != Ok("0")
        && usable(SERVER_CORE)
        && usable(CLIENT_CORE)
}

fn run_quietly(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A private Redis server on loopback. Dropping this value ends it.
pub struct Server {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Server {
    pub fn start() -> Self {
        Self::start_on(SERVER_CORE)
    }

    /// Starts a server on another core, so that several servers can work at the same time.
    pub fn start_on(core: &str) -> Self {
        // Another program may take the free port first. That is unlikely to happen three times.
        let server = (0..3).find_map(|_| Self::try_start(core));
        server.expect("redis-server is not installed or does not start")
    }

    fn try_start(core: &str) -> Option<Self> {
        let port = free_port()?;
        let directory = tempfile::tempdir().ok()?;
        let process = PROGRAMS.iter().find_map(|program| {
            let mut command = Command::new(program);
            if pins() {
                command = Command::new("taskset");
                command.args(["-c", core, program]);
            }
            command
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .args(["--save", "", "--appendonly", "no", "--dir"])
                .arg(directory.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .ok()
        })?;
        let mut server = Self {
            process,
            port,
            _directory: directory,
        };
        let start = Instant::now();
        while start.elapsed() < START_TIMEOUT && server.process.try_wait().ok()?.is_none() {
            let client = redis::Client::open(server.url()).ok()?;
            let connection = client.get_connection_with_timeout(START_TIMEOUT);
            if connection.is_ok_and(|mut up| redis::cmd("PING").exec(&mut up).is_ok()) {
                return Some(server);
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let process = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &process]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn address(&self) -> SocketAddr {
        address_of(&self.url())
    }

    pub fn client(&self) -> LockClient {
        LockClient::connect(&self.url()).expect("a valid URL")
    }

    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("a valid URL");
        client.get_connection().expect("the server is up")
    }

    /// How often the server has executed each command, including those inside scripts.
    pub fn command_counts(&self) -> CommandCounts {
        CommandCounts::ask(&mut self.connection())
    }
}

/// The address in a URL of a private server.
pub fn address_of(url: &str) -> SocketAddr {
    let address = url.strip_prefix("redis://").unwrap_or(url);
    address.parse().expect("an address and a port")
}

fn free_port() -> Option<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    listener.local_addr().ok().map(|address| address.port())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub struct CommandCounts(String);

impl CommandCounts {
    pub fn ask(connection: &mut redis::Connection) -> Self {
        let info = redis::cmd("INFO").arg("commandstats").query(connection);
        Self(info.expect("INFO works"))
    }

    pub fn of(&self, command: &str) -> u64 {
        let line = format!("cmdstat_{command}:calls=");
        let count = self.0.lines().find_map(|l| l.strip_prefix(&line));
        let count = count.and_then(|rest| rest.split(',').next());
        count.map_or(0, |count| count.parse().expect("a number"))
    }
}
