//! A private Redis for one test. It dies with its value, and tells its log if the test failed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Instant;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use redis::{Cmd, Connection, ConnectionAddr, FromRedisValue};
use redis_test::server::RedisServer;
use tempfile::TempDir;

use super::process;
use super::timing::{LONGEST_TEST, SOON, eventually, millis};

const HOST: &str = "127.0.0.1";

/// A test that measures the machine's speed runs while no other test has a server.
static MACHINE: LazyLock<RwLock<()>> = LazyLock::new(RwLock::default);

#[derive(Debug)]
#[expect(dead_code, reason = "held for its drop")]
enum Machine {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

pub struct Server {
    redis: RedisServer,
    port: u16,
    password: Option<String>,
    directory: TempDir,
    _fuse: Fuse,
    _machine: Machine,
}

/// Kills the server of a test that takes for ever: without it every call fails in its time, and so
/// does the test.
struct Fuse(#[expect(dead_code, reason = "held for its drop")] Sender<()>);

impl Fuse {
    fn of(pid: u32) -> Self {
        let (alive, ended) = bounded(0);
        std::thread::spawn(move || {
            if ended.recv_timeout(LONGEST_TEST.get()) == Err(RecvTimeoutError::Timeout) {
                process::signal(pid, "KILL");
                if ended.recv_timeout(LONGEST_TEST.get()) == Err(RecvTimeoutError::Timeout) {
                    eprintln!("a test hangs although its server is dead; this ends them all");
                    std::process::abort();
                }
            }
        });
        Self(alive)
    }
}

#[derive(Debug, Default)]
pub struct Options {
    password: Option<String>,
    alone: bool,
    environment: Vec<(&'static str, String)>,
}

impl Options {
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// No other test's server runs beside this one, so that times can be measured.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// With these variables in its environment.
    pub fn environment(mut self, variables: Vec<(&'static str, String)>) -> Self {
        self.environment = variables;
        self
    }

    pub fn start(self) -> Server {
        let mut machine = Some(if self.alone {
            Machine::Alone(MACHINE.write())
        } else {
            // Recursive: one test may have two servers while another waits to be alone.
            Machine::Shared(MACHINE.read_recursive())
        });
        loop {
            if let Some(server) = self.try_start(&mut machine) {
                return server;
            }
        }
    }

    /// `None` if somebody else took the port first.
    fn try_start(&self, machine: &mut Option<Machine>) -> Option<Server> {
        let port = process::free_port();
        let directory = tempfile::tempdir().expect("a directory");
        let mut extra: Vec<OsString> = vec![
            "--unixsocket".into(),
            directory.path().join("socket").into(),
        ];
        if let Some(password) = &self.password {
            extra.extend(["--requirepass".into(), password.into()]);
        }
        let mut redis = RedisServer::new_with_addr_tls_modules_and_spawner(
            ConnectionAddr::Tcp(HOST.into(), port),
            None,
            None,
            false,
            None,
            &[],
            |command| {
                let environment = self.environment.iter().map(|(name, value)| (name, value));
                let spawned = command.args(extra).envs(environment).spawn();
                spawned.expect("redis-server is installed")
            },
        );
        let url = url(self.password.as_deref(), port);
        let start = Instant::now();
        loop {
            if let Some(pid) = connect(&url).and_then(|mut redis| process_id(&mut redis)) {
                return (pid == redis.process.id()).then(|| Server {
                    redis,
                    port,
                    password: self.password.clone(),
                    directory,
                    _fuse: Fuse::of(pid),
                    _machine: machine.take().expect("taken once"),
                });
            }
            if let Ok(Some(_)) = redis.process.try_wait() {
                return None;
            }
            assert!(start.elapsed() < SOON.get(), "{}", log(&redis));
            std::thread::sleep(millis(2));
        }
    }
}

impl Server {
    pub fn start() -> Self {
        Options::default().start()
    }

    pub fn options() -> Options {
        Options::default()
    }

    pub fn url(&self) -> String {
        url(self.password.as_deref(), self.port)
    }

    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.port)
    }

    /// A connection of the test's own, with time-outs.
    pub fn connection(&self) -> Connection {
        connect(&self.url()).expect("the server answers")
    }

    /// One command of the test's own.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let answer = command.query(&mut self.connection());
        answer.unwrap_or_else(|error| panic!("{error}\n{}", log(&self.redis)))
    }

    /// From here on the server hangs: it takes connections and bytes, and answers nothing.
    pub fn pause(&self) {
        let pid = self.redis.process.id();
        process::signal(pid, "STOP");
        eventually("the server to stop", || process::is_stopped(pid));
    }

    pub fn resume(&self) {
        process::signal(self.redis.process.id(), "CONT");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of {}:\n{}", self.address(), log(&self.redis));
        }
        // Killed here, before another test may have the machine to itself.
        self.redis.stop();
    }
}

fn url(password: Option<&str>, port: u16) -> String {
    let login = password.map_or(String::new(), |password| format!(":{password}@"));
    format!("redis://{login}{HOST}:{port}")
}

fn connect(url: &str) -> Option<Connection> {
    let client = redis::Client::open(url).expect("the address is good");
    let connection = client.get_connection_with_timeout(SOON.get()).ok()?;
    connection.set_read_timeout(Some(SOON.get())).ok()?;
    connection.set_write_timeout(Some(SOON.get())).ok()?;
    Some(connection)
}

fn process_id(redis: &mut Connection) -> Option<u32> {
    let info: String = redis::cmd("INFO").arg("server").query(redis).ok()?;
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))?;
    pid.trim().parse().ok()
}

fn log(redis: &RedisServer) -> String {
    redis.log_file_contents().unwrap_or_default()
}
