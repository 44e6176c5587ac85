//! One run of a server's process. A server that is restarted has several.

use std::ffi::OsString;
use std::time::Instant;

use redis::{Connection, ConnectionAddr};
use redis_test::server::RedisServer;

use super::{HOST, connect};
use crate::support::timing::{SOON, millis};

/// Variables of a process: name and value.
pub type Environment = Vec<(&'static str, String)>;

pub struct Life {
    redis: RedisServer,
}

impl Life {
    /// Starts a server, which answers when this returns; `None` if somebody else took the port.
    pub fn start(
        port: u16,
        url: &str,
        arguments: &[OsString],
        environment: &[(&str, String)],
    ) -> Option<Self> {
        let mut redis = RedisServer::new_with_addr_tls_modules_and_spawner(
            ConnectionAddr::Tcp(HOST.into(), port),
            None,
            None,
            false,
            None,
            &[],
            |command| {
                let environment = environment.iter().map(|(name, value)| (name, value));
                let spawned = command.args(arguments).envs(environment).spawn();
                spawned.expect("redis-server is installed")
            },
        );
        let start = Instant::now();
        loop {
            if let Some(pid) = connect(url).and_then(|mut redis| process_id(&mut redis)) {
                return (pid == redis.process.id()).then_some(Self { redis });
            }
            if let Ok(Some(_)) = redis.process.try_wait() {
                return None;
            }
            let log = redis.log_file_contents().unwrap_or_default();
            assert!(start.elapsed() < SOON.get(), "{log}");
            std::thread::sleep(millis(2));
        }
    }

    pub fn pid(&self) -> u32 {
        self.redis.process.id()
    }

    pub fn log(&self) -> String {
        self.redis.log_file_contents().unwrap_or_default()
    }

    /// Kills the process and waits for its end.
    pub fn end(&mut self) {
        self.redis.stop();
    }
}

fn process_id(redis: &mut Connection) -> Option<u32> {
    let info: String = redis::cmd("INFO").arg("server").query(redis).ok()?;
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))?;
    pid.trim().parse().ok()
}
