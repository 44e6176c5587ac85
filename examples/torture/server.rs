//! The Redis server of the run, and a connection for administrative commands.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, ConnectionAddr, FromRedisValue};
use redis_test::server::RedisServer;

use crate::Result;
use crate::process::signal;

const HOST: &str = "127.0.0.1";
/// The user of the administrative connection. It keeps its rights while others have fewer.
const ADMIN: &str = "conductor";
const TIMEOUT: Duration = Duration::from_secs(10);

/// A private redis-server. Dropping this value ends it.
pub struct Server {
    redis: RedisServer,
    port: u16,
    admin: Option<Connection>,
}

impl Server {
    pub fn start() -> Result<Self> {
        let port = TcpListener::bind((HOST, 0))?.local_addr()?.port();
        let mut server = Self {
            redis: process(port),
            port,
            admin: None,
        };
        server.await_reply()?;
        Ok(server)
    }

    /// Ends the server, and starts one without its data at the same address.
    pub fn restart(&mut self) -> Result<()> {
        self.redis.stop();
        self.redis = process(self.port);
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

    /// Changes what the user of the workers may use.
    pub fn set_rights(&mut self, rules: &[&str]) -> Result<()> {
        self.query(redis::cmd("ACL").arg("SETUSER").arg("default").arg(rules))
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.port)
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

    /// Describes the key of a lock, its time to live and its fields, if it exists.
    pub fn remains(&mut self, key: &str) -> Result<Option<String>> {
        let script = "local fields = redis.call('hgetall', KEYS[1])
            if #fields == 0 then return nil end
            return 'for ' .. redis.call('pttl', KEYS[1]) .. ' ms: ' .. table.concat(fields, ' ')";
        self.query(redis::cmd("EVAL").arg(script).arg(1).arg(key))
    }

    fn admin(&mut self) -> Result<&mut Connection> {
        if self.admin.is_none() {
            let client = redis::Client::open(format!("redis://{ADMIN}:any@{}", self.address()))?;
            let connection = client.get_connection_with_timeout(TIMEOUT)?;
            connection.set_read_timeout(Some(TIMEOUT))?;
            self.admin = Some(connection);
        }
        Ok(self.admin.as_mut().expect("it was opened"))
    }
}

fn process(port: u16) -> RedisServer {
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
