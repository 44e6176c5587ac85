//! A server behind a proxy, and what the server has, as it says itself.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, LockClient, LockClientBuilder};
use redis::Connection;

use crate::support::proxy::{Proxy, repository};
use crate::support::server::Server;
use crate::support::timing::millis;
use crate::support::{builder, client};

pub struct Bench {
    pub server: Server,
    pub proxy: Proxy,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Server::start())
    }

    /// For a test of what calls may take: no other test's server runs beside it.
    pub fn alone() -> Self {
        Self::with(Server::options().alone().start())
    }

    fn with(server: Server) -> Self {
        load_scripts(&server);
        let proxy = Proxy::before(&server.address());
        Self { server, proxy }
    }

    /// Of a client behind the proxy, for which a lost reply costs `timeout`.
    pub fn builder(&self, timeout: Duration) -> LockClientBuilder {
        builder(&self.proxy.url()).command_timeout(timeout)
    }

    /// A client that no fault meets.
    pub fn rival(&self) -> LockClient {
        client(&self.server.url())
    }

    pub fn books(&self) -> Books {
        Books(self.server.connection())
    }
}

/// The server knows all scripts: a first call by hash, of which no reply arrives, is done.
pub fn load_scripts(server: &Server) {
    let scripts = repository().join("lua");
    for file in std::fs::read_dir(scripts).expect("the scripts") {
        let text = std::fs::read(file.expect("a file").path()).expect("its text");
        server.ask::<()>(redis::cmd("SCRIPT").arg("LOAD").arg(text));
    }
}

/// What Redis has, without the proxy.
pub struct Books(pub Connection);

impl Books {
    /// Who holds a lock, and how often.
    pub fn holder(&mut self, name: &str) -> Option<(String, u32)> {
        let hgetall = redis::cmd("HGETALL").arg(name).clone();
        let counts: HashMap<String, u32> = hgetall.query(&mut self.0).expect("a lock, or none");
        assert!(counts.len() <= 1, "two holders of {name}: {counts:?}");
        counts.into_iter().next()
    }

    pub fn count(&mut self, name: &str) -> u32 {
        self.holder(name).map_or(0, |(_, count)| count)
    }

    /// Zero where there is no lock.
    pub fn time_to_live(&mut self, name: &str) -> Duration {
        let pttl: i64 = redis::cmd("PTTL")
            .arg(name)
            .query(&mut self.0)
            .expect("a number");
        assert_ne!(pttl, -1, "{name} never expires");
        Duration::from_millis(pttl.max(0).unsigned_abs())
    }

    /// Waits until Redis has the count of the holder, for so long at most.
    #[track_caller]
    pub fn comes_to(&mut self, count: u32, name: &str, bound: Duration, what: &str) {
        let start = Instant::now();
        loop {
            let found = self.count(name);
            if found == count {
                return;
            }
            assert!(
                start.elapsed() < bound,
                "{what}: the holder of {name} has {count}, Redis still has {found}",
            );
            thread::sleep(millis(1));
        }
    }
}

pub fn is_unavailable<T>(result: &leasehold::Result<T>) -> bool {
    matches!(result, Err(Error::Unavailable { .. }))
}
