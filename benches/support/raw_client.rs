//! The floor of the comparisons: lock scripts on one raw connection, without a library. The scripts
//! execute the same commands on the same keys and channels as those of the library, and check
//! nothing else. They are files of the benches, so that a change of the library does not move its
//! floor.

use std::time::Duration;

use redis::{Cmd, Connection, cmd};

use super::Server;

/// The lease of the default client.
pub const LEASE_MILLIS: u64 = 30_000;

pub const OWNER: &str = "00000000-0000-4000-8000-000000000000:1";

/// Locks in one renewal, as in the watchdog.
const BATCH: usize = 250;

/// A connection and the hashes of the loaded scripts.
pub struct RawClient {
    connection: Connection,
    owner: String,
    /// The command that publishes releases.
    publish: &'static str,
    acquire: String,
    release: String,
    renew: String,
}

impl RawClient {
    pub fn new(server: &Server) -> Self {
        Self::on(server.connection(), OWNER)
    }

    /// A client for a primary of a cluster.
    pub fn in_cluster(connection: Connection) -> Self {
        Self {
            publish: "spublish",
            ..Self::on(connection, OWNER)
        }
    }

    pub fn on(mut connection: Connection, owner: &str) -> Self {
        let mut load = |source: &str| load(&mut connection, source);
        Self {
            acquire: load(include_str!("scripts/acquire.lua")),
            release: load(include_str!("scripts/release.lua")),
            renew: load(include_str!("scripts/renew.lua")),
            owner: owner.into(),
            publish: "publish",
            connection,
        }
    }

    /// Acquires the lock; false if it was not free.
    pub fn acquire(&mut self, key: &str) -> bool {
        self.acquire_for(key, LEASE_MILLIS)
    }

    pub fn acquire_for(&mut self, key: &str, millis: u64) -> bool {
        self.lease_of_another(key, millis).is_none()
    }

    /// Acquires the lock, or returns what is left of the lease of the owner that has it.
    pub fn lease_of_another(&mut self, key: &str, millis: u64) -> Option<Duration> {
        let call = self.acquire_call(key, millis);
        let left: Option<i64> = call.query(&mut self.connection).expect("a reply");
        left.map(|millis| Duration::from_millis(millis.max(1).unsigned_abs()))
    }

    pub fn release(&mut self, key: &str) {
        let call = self.release_call(key);
        let released: bool = call.query(&mut self.connection).expect("a reply");
        assert!(released, "the owner holds the lock");
    }

    /// One `lock` and `unlock` of a free lock.
    pub fn pair(&mut self, key: &str) {
        assert!(self.acquire(key), "the lock is free");
        self.release(key);
    }

    fn acquire_call(&self, key: &str, millis: u64) -> Cmd {
        let mut call = call(&self.acquire, &[key]);
        call.arg(&self.owner).arg(millis);
        call
    }

    fn release_call(&self, key: &str) -> Cmd {
        let mut call = call(&self.release, &[key]);
        call.arg(&self.owner).arg(channel(key)).arg(self.publish);
        call
    }

    /// Sends an acquire. [`end`](Self::end) reads the reply.
    pub fn begin_acquire(&mut self, key: &str, millis: u64) {
        let call = self.acquire_call(key, millis);
        self.begin(&call);
    }

    /// Sends a release. [`end`](Self::end) reads the reply.
    pub fn begin_release(&mut self, key: &str) {
        let call = self.release_call(key);
        self.begin(&call);
    }

    fn begin(&mut self, call: &Cmd) {
        let packed = call.get_packed_command();
        let sent = self.connection.send_packed_command(&packed);
        sent.expect("the server is up");
    }

    /// Reads one reply.
    pub fn end(&mut self) {
        self.connection.recv_response().expect("a reply");
    }

    /// Renews all locks in pipelined batches.
    pub fn renew(&mut self, keys: &[String], millis: u64) {
        self.renew_in(BATCH, keys, millis);
    }

    /// Renews all locks in one pipeline with one call for each lock.
    pub fn renew_one_by_one(&mut self, keys: &[String], millis: u64) {
        self.renew_in(1, keys, millis);
    }

    fn renew_in(&mut self, size: usize, keys: &[String], millis: u64) {
        let mut pipeline = redis::pipe();
        for batch in keys.chunks(size) {
            let mut call = call(&self.renew, batch);
            call.arg(&self.owner).arg(millis);
            pipeline.add_command(call);
        }
        let replies: Vec<Vec<i64>> = pipeline.query(&mut self.connection).expect("replies");
        assert!(replies.iter().flatten().all(|&reply| reply == 1));
    }
}

/// The channel for releases of a lock.
pub fn channel(key: &str) -> String {
    format!("redisson_lock__channel:{{{key}}}")
}

/// Loads a script, and returns its hash.
pub fn load(connection: &mut Connection, source: &str) -> String {
    let mut load = cmd("SCRIPT");
    load.arg("LOAD").arg(source);
    load.query(connection).expect("the script compiles")
}

/// A call of a loaded script.
pub fn call(hash: &str, keys: &[impl AsRef<str>]) -> Cmd {
    let mut call = cmd("EVALSHA");
    call.arg(hash).arg(keys.len());
    for key in keys {
        call.arg(key.as_ref());
    }
    call
}
