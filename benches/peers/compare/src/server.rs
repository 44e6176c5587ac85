//! A private Redis server on its own core.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use leasehold_peers_compare::Result;

use crate::machine;

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Dropping this value ends the server.
pub struct Server {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Server {
    pub fn start() -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let directory = tempfile::tempdir()?;
        let process = machine::on_server_core("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server: {error}"))?;
        let server = Self {
            process,
            port,
            _directory: directory,
        };
        let start = Instant::now();
        loop {
            match server.connection() {
                Ok(_) => return Ok(server),
                Err(error) if start.elapsed() > START_TIMEOUT => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn connection(&self) -> Result<redis::Connection> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(START_TIMEOUT)?;
        redis::cmd("PING").exec(&mut connection)?;
        Ok(connection)
    }

    /// Deletes all keys.
    pub fn clear(&self) -> Result<()> {
        Ok(redis::cmd("FLUSHALL").exec(&mut self.connection()?)?)
    }

    pub fn keys(&self) -> Result<u64> {
        Ok(redis::cmd("DBSIZE").query(&mut self.connection()?)?)
    }

    /// The CPU time of the server.
    pub fn cpu_time(&self) -> Result<Duration> {
        let mut seconds = 0.0;
        for field in ["used_cpu_sys", "used_cpu_user"] {
            seconds += self.info("cpu", field)?.parse::<f64>()?;
        }
        Ok(Duration::from_secs_f64(seconds))
    }

    /// The calls of scripts. All peers renew their locks by scripts.
    pub fn script_calls(&self) -> Result<u64> {
        let mut calls = 0;
        for command in ["cmdstat_eval", "cmdstat_evalsha"] {
            // A command that was never called has no line.
            let counts = self.info("commandstats", command).unwrap_or_default();
            let count = counts
                .strip_prefix("calls=")
                .and_then(|rest| rest.split(',').next());
            calls += count.map_or(Ok(0), str::parse::<u64>)?;
        }
        Ok(calls)
    }

    pub fn version(&self) -> Result<String> {
        self.info("server", "redis_version")
    }

    fn info(&self, section: &str, field: &str) -> Result<String> {
        let info: String = redis::cmd("INFO")
            .arg(section)
            .query(&mut self.connection()?)?;
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(value
            .ok_or_else(|| format!("no {field} in INFO"))?
            .to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
