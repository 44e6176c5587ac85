//! A Redis server and the exit codes for the examples.

use std::{
    env, error, fmt, fs,
    io::{self, ErrorKind},
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use redis::Connection;
use tempfile::TempDir;

/// Some systems have only valkey-server, a drop-in replacement.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Another program may take the free port first. That is unlikely to happen three times.
const START_ATTEMPTS: u32 = 3;
const START_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

pub type Result<T> = std::result::Result<T, Box<dyn error::Error + Send + Sync>>;

/// Reasons to end early that have an exit code of their own.
#[derive(Debug)]
#[allow(dead_code, reason = "not every example uses both")]
pub enum Stop {
    NoServer,
    Interrupted,
}

impl Stop {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoServer => ExitCode::from(2),
            Self::Interrupted => ExitCode::from(130),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoServer => {
                "no Redis server: set REDIS_URL, or install redis-server \
                 (package redis-server on Debian, valkey on Arch, redis elsewhere)"
            }
            Self::Interrupted => "interrupted",
        })
    }
}

impl error::Error for Stop {}

/// Prints an error, if any, and returns the exit code of the example.
pub fn exit_code(outcome: Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("{error}");
        error
            .downcast_ref()
            .map_or(ExitCode::FAILURE, Stop::exit_code)
    })
}

/// The server at `REDIS_URL`, or a private one that ends with this value.
pub struct Server {
    url: String,
    _private: Option<PrivateServer>,
}

impl Server {
    pub fn find_or_start() -> Result<Self> {
        if let Some(url) = env::var("REDIS_URL").ok().filter(|url| !url.is_empty()) {
            connect(&url).map_err(|error| format!("the server at REDIS_URL: {error}"))?;
            return Ok(Self {
                url,
                _private: None,
            });
        }
        let private = PrivateServer::start()?;
        Ok(Self {
            url: private.url(),
            _private: Some(private),
        })
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

/// Opens a connection whose calls all have a timeout.
pub fn connect(url: &str) -> Result<Connection> {
    let connection = redis::Client::open(url)?.get_connection_with_timeout(CONNECT_TIMEOUT)?;
    connection.set_read_timeout(Some(REPLY_TIMEOUT))?;
    connection.set_write_timeout(Some(REPLY_TIMEOUT))?;
    Ok(connection)
}

/// Starts the child in its own process group, so that Ctrl-C in the terminal does not reach it. Its
/// parent ends it.
pub fn shield_from_terminal(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command
}

struct PrivateServer {
    process: Child,
    port: u16,
    directory: TempDir,
}

impl PrivateServer {
    fn start() -> Result<Self> {
        let mut last_log_line = String::new();
        for _ in 0..START_ATTEMPTS {
            let mut server = Self::spawn(free_port()?)?;
            if server.is_up()? {
                return Ok(server);
            }
            last_log_line = server.last_log_line();
        }
        Err(format!("the Redis server does not start: {last_log_line}").into())
    }

    fn spawn(port: u16) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        for program in PROGRAMS {
            let mut command = Command::new(program);
            command
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .args([
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--logfile",
                    "log",
                    "--dir",
                ])
                .arg(directory.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            match shield_from_terminal(&mut command).spawn() {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(format!("cannot run {program}: {error}").into()),
                Ok(process) => {
                    return Ok(Self {
                        process,
                        port,
                        directory,
                    });
                }
            }
        }
        Err(Stop::NoServer.into())
    }

    fn is_up(&mut self) -> io::Result<bool> {
        let start = Instant::now();
        while self.process.try_wait()?.is_none() && start.elapsed() < START_TIMEOUT {
            if connect(&self.url())
                .is_ok_and(|mut connection| redis::cmd("PING").exec(&mut connection).is_ok())
            {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(false)
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn last_log_line(&self) -> String {
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        log.lines().last().unwrap_or("its log is empty").to_owned()
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}
