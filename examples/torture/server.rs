//! The Redis server of the run, and the operator who does things to it.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, ConnectionAddr, FromRedisValue};
use redis_test::server::RedisServer;

use crate::Result;
use crate::process::signal;

const HOST: &str = "127.0.0.1";
const TIMEOUT: Duration = Duration::from_secs(10);

/// Ended with its value.
pub struct Server {
    redis: RedisServer,
    port: u16,
    operator: Option<Connection>,
}

impl Server {
    pub fn start() -> Result<Self> {
        let port = TcpListener::bind((HOST, 0))?.local_addr()?.port();
        let redis = RedisServer::new_with_addr_tls_modules_and_spawner(
            ConnectionAddr::Tcp(HOST.into(), port),
            None,
            None,
            false,
            None,
            &[],
            // Ctrl-C is for the conductor, who ends everybody in order.
            |command| {
                command
                    .process_group(0)
                    .spawn()
                    .expect("there is a redis-server")
            },
        );
        let mut server = Self {
            redis,
            port,
            operator: None,
        };
        let start = Instant::now();
        while let Err(error) = server.ask::<()>(&redis::cmd("PING")) {
            if start.elapsed() > TIMEOUT {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
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

    /// One command of the operator, who is nobody's client. Not while the server is paused.
    pub fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        let connection = self.operator()?;
        let answer = command.query(connection);
        if answer.is_err() {
            self.operator = None;
        }
        Ok(answer?)
    }

    /// What is left of a lock: its time to live and its holds, if it is there.
    pub fn remains(&mut self, key: &str) -> Result<Option<String>> {
        let script = "local fields = redis.call('hgetall', KEYS[1])
            if #fields == 0 then return nil end
            return 'for ' .. redis.call('pttl', KEYS[1]) .. ' ms: ' .. table.concat(fields, ' ')";
        self.ask(redis::cmd("EVAL").arg(script).arg(1).arg(key))
    }

    fn operator(&mut self) -> Result<&mut Connection> {
        if self.operator.is_none() {
            let client = redis::Client::open(format!("redis://{}", self.address()))?;
            let connection = client.get_connection_with_timeout(TIMEOUT)?;
            connection.set_read_timeout(Some(TIMEOUT))?;
            self.operator = Some(connection);
        }
        Ok(self.operator.as_mut().expect("it was opened"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A stopped process does not hear that it is to end.
        let _ = self.resume();
    }
}
