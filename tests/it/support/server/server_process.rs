//! One process of a server. A restarted server has another one.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use redis::{Connection, ConnectionAddr};
use redis_test::server::RedisServer;

use super::{HOST, SOON, connect, millis, reaper};

/// Environment variables: name and value.
pub type Environment = Vec<(&'static str, String)>;

/// What all processes of a server have in common.
pub struct StartOptions {
    pub port: u16,
    pub url: String,
    pub configuration: Option<PathBuf>,
    pub arguments: Vec<OsString>,
    pub environment: Environment,
    pub directory: PathBuf,
}

pub struct ServerProcess {
    redis: RedisServer,
    ended: bool,
}

impl ServerProcess {
    /// Starts a server, which replies when this returns. `None` if another process took the port.
    pub fn start(options: &StartOptions) -> Option<Self> {
        let redis = RedisServer::new_with_addr_tls_modules_and_spawner(
            ConnectionAddr::Tcp(HOST.into(), options.port),
            options.configuration.as_deref(),
            None,
            false,
            None,
            &[],
            |command| {
                let environment = options.environment.iter();
                let environment = environment.map(|(name, value)| (name, value));
                let command = command.args(&options.arguments);
                let spawned = command.envs(environment).spawn();
                spawned.expect("redis-server is installed")
            },
        );
        let directories = [redis.tempdir.path(), &options.directory];
        reaper::runs(redis.process.id(), &directories);
        let mut process = Self {
            redis,
            ended: false,
        };
        let start = Instant::now();
        loop {
            let pid = connect(&options.url).and_then(|mut redis| process_id(&mut redis));
            if let Some(pid) = pid {
                return (pid == process.pid()).then_some(process);
            }
            if let Ok(Some(_)) = process.redis.process.try_wait() {
                let log = process.log() + &process.errors();
                assert!(log.contains("Address already in use"), "{log}");
                return None;
            }
            assert!(start.elapsed() < SOON.get(), "{}", process.log());
            std::thread::sleep(millis(2));
        }
    }

    pub fn pid(&self) -> u32 {
        self.redis.process.id()
    }

    pub fn log(&self) -> String {
        self.redis.log_file_contents().unwrap_or_default()
    }

    /// What the ended process wrote to its standard error: why its arguments are wrong.
    fn errors(&mut self) -> String {
        let mut errors = String::new();
        let stderr = self.redis.process.stderr.take();
        // Without this text the log is left.
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut errors));
        errors
    }

    /// Kills the process and waits for its end.
    pub fn end(&mut self) {
        // Another process may get its id afterwards.
        if !std::mem::replace(&mut self.ended, true) {
            self.redis.stop();
            reaper::ended(self.pid());
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// The id of the server's process. `None` while it loads its data and so refuses other commands.
fn process_id(redis: &mut Connection) -> Option<u32> {
    let info: String = redis::cmd("INFO").query(redis).ok()?;
    if info.contains("loading:1") {
        return None;
    }
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))?;
    pid.trim().parse().ok()
}
