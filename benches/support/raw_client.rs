//! The floor of the comparisons: the scripts of the library on one raw connection.

use redis::{Cmd, Connection, Value, cmd};

use super::Server;

/// The lease of the default client.
pub const LEASE_MILLIS: u64 = 30_000;

const OWNER: &str = "00000000-0000-4000-8000-000000000000:1";

/// Locks in one renewal, as in the watchdog.
const BATCH: usize = 250;

/// A connection and the hashes of the loaded scripts.
pub struct RawClient {
    connection: Connection,
    owner: String,
    /// The command that publishes releases.
    publish: &'static str,
    acquire: String,
    recount: String,
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
        let mut load = |source: &str| -> String {
            let mut load = cmd("SCRIPT");
            load.arg("LOAD").arg(source);
            load.query(&mut connection).expect("the script compiles")
        };
        Self {
            acquire: load(include_str!("../../lua/acquire.lua")),
            recount: load(include_str!("../../lua/recount.lua")),
            release: load(include_str!("../../lua/release.lua")),
            renew: load(include_str!("../../lua/renew.lua")),
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
        let mut call = call(&self.acquire, &[key]);
        let reply: Value = call
            .arg(&self.owner)
            .arg(millis)
            .query(&mut self.connection)
            .expect("a reply");
        reply == Value::Nil
    }

    pub fn recount(&mut self, key: &str, count: u32, millis: u64) {
        let mut call = call(&self.recount, &[key]);
        call.arg(&self.owner).arg(count).arg(millis);
        self.expect_success(&call);
    }

    pub fn release(&mut self, key: &str) {
        let call = self.release_call(key);
        self.expect_success(&call);
    }

    fn release_call(&self, key: &str) -> Cmd {
        let mut call = call(&self.release, &[key]);
        call.arg(&self.owner).arg(channel(key)).arg(self.publish);
        call
    }

    /// Sends an acquire. [`end`](Self::end) reads the reply.
    pub fn begin_acquire(&mut self, key: &str, millis: u64) {
        let mut call = call(&self.acquire, &[key]);
        call.arg(&self.owner).arg(millis);
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
            for _ in batch {
                call.arg(&self.owner).arg(millis);
            }
            pipeline.add_command(call);
        }
        let replies: Vec<Vec<i64>> = pipeline.query(&mut self.connection).expect("replies");
        assert!(replies.iter().flatten().all(|&reply| reply == 1));
    }

    fn expect_success(&mut self, call: &Cmd) {
        let reply: i64 = call.query(&mut self.connection).expect("a reply");
        assert_eq!(reply, 1, "the owner holds the lock");
    }
}

/// The channel for releases of a lock.
pub fn channel(key: &str) -> String {
    format!("redisson_lock__channel:{{{key}}}")
}

fn call(hash: &str, keys: &[impl AsRef<str>]) -> Cmd {
    let mut call = cmd("EVALSHA");
    call.arg(hash).arg(keys.len());
    for key in keys {
        call.arg(key.as_ref());
    }
    call
}
