//! A master with replicas, without sentinels.

use std::sync::LazyLock;

use super::replication::is_complete;
use super::{Options, REPLICATION, Server, Shared, eventually};

pub struct Replicated {
    /// The first is the master.
    servers: Vec<Server>,
}

impl Replicated {
    /// Starts a master with this number of replicas, which are online when this returns.
    pub fn start(replicas: usize) -> Self {
        Self::start_with(Options::default, replicas)
    }

    /// The shared master of this process, with one replica, for tests that harm neither.
    pub fn shared() -> Shared<Self> {
        static SHARED: LazyLock<Replicated> =
            LazyLock::new(|| Replicated::start_with(|| Options::default().everlasting(), 1));
        Shared::of(&SHARED)
    }

    fn start_with(options: fn() -> Options, replicas: usize) -> Self {
        let options = || options().arguments(&REPLICATION);
        let master = options().start();
        let port = master.port().to_string();
        let follow = || options().arguments(&["--replicaof", "127.0.0.1", &port]);
        let mut servers = vec![master];
        servers.extend(Server::start_all((0..replicas).map(|_| follow()).collect()));
        let replicated = Self { servers };
        replicated.await_replicas();
        replicated
    }

    pub fn master(&self) -> &Server {
        &self.servers[0]
    }

    pub fn replica(&self, index: usize) -> &Server {
        &self.servers[index + 1]
    }

    pub fn url(&self) -> String {
        self.master().url()
    }

    /// The replica confirms nothing. The master counts it as connected until `repl-timeout`.
    pub fn pause_replica(&self, index: usize) {
        self.replica(index).pause();
    }

    /// The replica is online when this returns.
    pub fn resume_replica(&self, index: usize) {
        self.replica(index).resume();
        self.await_replicas();
    }

    /// Waits until all replicas that are up have all writes of the master.
    pub fn await_replicas(&self) {
        eventually("the replicas to be online", || {
            is_complete(self.master(), &self.servers)
        });
    }
}
