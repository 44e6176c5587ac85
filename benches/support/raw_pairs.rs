//! The floor of many threads: prepared bytes on a plain socket, without a client library.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use redis::Cmd;

use super::{
    raw_client::{LEASE_MILLIS, OWNER, call, channel, load},
    server::address_of,
};

/// Longer than any bench that waits for the locks.
const LONG_LEASE_MILLIS: u64 = 240_000;

/// A record of a request for a permit: its number and its reply.
const RECORD: &str = "1000000 1";

/// The hashes of the loaded scripts.
pub struct Scripts {
    acquire: String,
    release: String,
    take: String,
    put_back: String,
}

impl Scripts {
    pub fn load(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a valid URL");
        let mut connection = client.get_connection().expect("the server is up");
        let mut load = |source: &str| load(&mut connection, source);
        Self {
            acquire: load(include_str!("scripts/acquire.lua")),
            release: load(include_str!("scripts/release.lua")),
            take: load(include_str!("scripts/kinds/semaphore_take.lua")),
            put_back: load(include_str!("scripts/kinds/semaphore_return.lua")),
        }
    }

    /// A lock and an unlock of a free lock.
    pub fn lock(&self, key: &str) -> [Call; 2] {
        self.lock_for(key, LEASE_MILLIS)
    }

    fn lock_for(&self, key: &str, millis: u64) -> [Call; 2] {
        let mut acquire = call(&self.acquire, &[key]);
        acquire.arg(OWNER).arg(millis);
        let mut release = call(&self.release, &[key]);
        release.arg(OWNER).arg(channel(key)).arg("publish");
        [
            Call::new(&acquire, "$-1\r\n"),
            Call::new(&release, ":1\r\n"),
        ]
    }

    /// An acquire and a release of a permit, while one is free.
    pub fn permit(&self, key: &str, records: &str) -> [Call; 2] {
        let mut take = call(&self.take, &[key, records]);
        take.arg(RECORD);
        let mut put_back = call(&self.put_back, &[key, records]);
        put_back.arg(RECORD).arg(format!("redisson_sc:{{{key}}}"));
        [Call::new(&take, ":1\r\n"), Call::new(&put_back, ":1\r\n")]
    }
}

/// The bytes of a request, and those of the only reply that is expected.
#[derive(Default)]
pub struct Call {
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Call {
    fn new(command: &Cmd, reply: &str) -> Self {
        Self {
            request: command.get_packed_command(),
            reply: reply.into(),
        }
    }

    /// Appends a call, for a pipeline.
    pub fn append(&mut self, other: &Self) {
        self.request.extend_from_slice(&other.request);
        self.reply.extend_from_slice(&other.reply);
    }
}

/// A connection, and the two calls of a pair.
pub struct RawPair {
    stream: TcpStream,
    calls: [Call; 2],
    received: Vec<u8>,
}

impl RawPair {
    pub fn new(url: &str, calls: [Call; 2]) -> Self {
        let stream = TcpStream::connect(address_of(url)).expect("the server is up");
        stream.set_nodelay(true).expect("a TCP socket");
        Self {
            stream,
            calls,
            received: Vec::new(),
        }
    }

    /// Sends each call, and waits for its reply.
    pub fn run(&mut self) {
        self.call(0);
        self.call(1);
    }

    fn call(&mut self, number: usize) {
        let call = &self.calls[number];
        self.received.resize(call.reply.len(), 0);
        self.stream.write_all(&call.request).expect("it reads");
        self.stream.read_exact(&mut self.received).expect("a reply");
        assert!(self.received == call.reply, "not the expected reply");
    }
}

/// A client without a library that holds many locks for long.
pub struct Waited {
    pair: RawPair,
}

impl Waited {
    /// Acquires all locks with one pipeline.
    pub fn acquire(url: &str, scripts: &Scripts, keys: &[String]) -> Self {
        let mut all = [Call::default(), Call::default()];
        for key in keys {
            let calls = scripts.lock_for(key, LONG_LEASE_MILLIS);
            all.iter_mut()
                .zip(&calls)
                .for_each(|(all, one)| all.append(one));
        }
        let mut pair = RawPair::new(url, all);
        pair.call(0);
        Self { pair }
    }

    /// Releases all locks with one pipeline.
    pub fn release(&mut self) {
        self.pair.call(1);
    }
}
