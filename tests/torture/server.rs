//! The Redis server of the run, and a connection for administrative commands.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, ConnectionAddr, FromRedisValue};
use redis_test::server::RedisServer;
use tempfile::TempDir;

use crate::Result;
use crate::process::signal;

const HOST: &str = "127.0.0.1";
/// The user of the administrative connection. It keeps its rights while others have fewer.
const ADMIN: &str = "conductor";
/// The users of the workers.
pub const USER: &str = "default";
/// It may not subscribe.
pub const SILENT_USER: &str = "silent";
const TIMEOUT: Duration = Duration::from_secs(10);

/// A private redis-server. Dropping this value ends it.
pub struct Server {
    redis: RedisServer,
    port: u16,
    admin: Option<Connection>,
    /// How often the password of the workers was changed.
    rotations: u32,
    passwords: TempDir,
}

impl Server {
    pub fn start() -> Result<Self> {
        let port = TcpListener::bind((HOST, 0))?.local_addr()?.port();
        let rotations = 0;
        let mut server = Self {
            redis: process(port, rotations),
            port,
            admin: None,
            rotations,
            passwords: tempfile::tempdir()?,
        };
        server.await_reply()?;
        server.write_password()?;
        Ok(server)
    }

    /// Ends the server, and starts one without its data at the same address.
    pub fn restart(&mut self) -> Result<()> {
        self.redis.stop();
        self.redis = process(self.port, self.rotations);
        self.admin = None;
        self.await_reply()
    }

    fn await_reply(&mut self) -> Result<()> {
        let start = Instant::now();
        while let Err(error) = self.query::<()>(&redis::cmd("PING")) {
            if start.elapsed() > TIMEOUT {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Changes what the users of the workers may use.
    pub fn set_rights(&mut self, rules: &[&str]) -> Result<()> {
        self.set_user(USER, rules)?;
        self.set_user(SILENT_USER, &[rules, &["-subscribe"]].concat())
    }

    fn set_user(&mut self, user: &str, rules: &[&str]) -> Result<()> {
        self.query(redis::cmd("ACL").arg("SETUSER").arg(user).arg(rules))
    }

    /// Changes the password of the workers: adds the new one, tells it, and removes the old one.
    pub fn rotate_password(&mut self) -> Result<()> {
        let old = password(self.rotations);
        self.rotations += 1;
        let add = format!(">{}", password(self.rotations));
        for user in [USER, SILENT_USER] {
            self.set_user(user, &[&add])?;
        }
        self.write_password()?;
        for user in [USER, SILENT_USER] {
            self.set_user(user, &[&format!("<{old}")])?;
        }
        Ok(())
    }

    /// The file from which the workers read their password.
    pub fn password_file(&self) -> PathBuf {
        self.passwords.path().join("password")
    }

    /// A reader sees the old or the new file.
    fn write_password(&self) -> Result<()> {
        let new = self.passwords.path().join("new");
        fs::write(&new, password(self.rotations))?;
        Ok(fs::rename(new, self.password_file())?)
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.port)
    }

    /// The URL of the conductor.
    pub fn url(&self) -> String {
        format!("redis://{ADMIN}:any@{}", self.address())
    }

    pub fn pause(&self) -> Result<()> {
        signal(self.redis.process.id(), "STOP")
    }

    pub fn resume(&self) -> Result<()> {
        signal(self.redis.process.id(), "CONT")
    }

    /// Runs one command. A paused server does not reply.
    pub fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        let connection = self.admin()?;
        let answer = command.query(connection);
        if answer.is_err() {
            self.admin = None;
        }
        Ok(answer?)
    }

    fn admin(&mut self) -> Result<&mut Connection> {
        if self.admin.is_none() {
            let client = redis::Client::open(self.url())?;
            let connection = client.get_connection_with_timeout(TIMEOUT)?;
            connection.set_read_timeout(Some(TIMEOUT))?;
            self.admin = Some(connection);
        }
        Ok(self.admin.as_mut().expect("it was opened"))
    }
}

fn password(rotations: u32) -> String {
    format!("password-{rotations}")
}

fn process(port: u16, rotations: u32) -> RedisServer {
    let password = format!(">{}", password(rotations));
    let all = ["on", &password, "~*", "&*", "+@all"];
    RedisServer::new_with_addr_tls_modules_and_spawner(
        ConnectionAddr::Tcp(HOST.into(), port),
        None,
        None,
        false,
        None,
        &[],
        // A group of its own: Ctrl-C must reach only the conductor, which stops all processes.
        |command| {
            command
                .process_group(0)
                .args(["--user", ADMIN, "on", "nopass", "~*", "&*", "+@all"])
                .args(["--user", USER])
                .args(all)
                .args(["--user", SILENT_USER])
                .args(all)
                .arg("-subscribe")
                .spawn()
                .expect("redis-server is installed")
        },
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        // A paused process does not handle the signal that ends it.
        let _ = self.resume();
    }
}
