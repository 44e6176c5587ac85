//! What Redis has of a leased semaphore, read without the library.

use redis::{Cmd, FromRedisValue};

use crate::support::prelude::*;

pub struct View {
    redis: Connection,
    name: String,
}

impl View {
    pub fn of(server: &Server, name: &str) -> Self {
        Self {
            redis: server.connection(),
            name: name.into(),
        }
    }

    pub fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        command.query(&mut self.redis).expect("a reply")
    }

    /// The key of the leased permits.
    pub fn leases_key(&self) -> String {
        format!("{{{}}}:timeout", self.name)
    }

    /// The number of available permits; `None` without the key.
    pub fn available(&mut self) -> Option<i64> {
        let name = self.name.clone();
        self.ask(redis::cmd("GET").arg(name))
    }

    /// The ids of the leased permits as hexadecimal characters, and the ends of their leases in
    /// milliseconds since 1970.
    pub fn leases(&mut self) -> Vec<(String, f64)> {
        let key = self.leases_key();
        let command = redis::cmd("ZRANGE")
            .arg(key)
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES")
            .clone();
        let leases: Vec<(Vec<u8>, f64)> = self.ask(&command);
        let hex = |id: Vec<u8>| id.iter().map(|byte| format!("{byte:02x}")).collect();
        leases
            .into_iter()
            .map(|(id, ends)| (hex(id), ends))
            .collect()
    }

    /// The server's clock in milliseconds since 1970.
    pub fn clock(&mut self) -> f64 {
        let (seconds, micros): (f64, f64) = self.ask(&redis::cmd("TIME"));
        seconds * 1000.0 + (micros / 1000.0).floor()
    }

    /// Leases a permit as a Java program does, for `left` milliseconds by the server's clock.
    pub fn lease_as_java(&mut self, id: [u8; 16], left: f64) {
        let ends = self.clock() + left;
        self.lease_until(id, ends);
    }

    /// Leases a permit whose lease ends at this time.
    pub fn lease_until(&mut self, id: [u8; 16], ends: f64) {
        let (name, key) = (self.name.clone(), self.leases_key());
        self.ask::<()>(redis::cmd("DECRBY").arg(name).arg(1));
        let zadd = redis::cmd("ZADD").arg(key).arg(ends).arg(&id[..]).clone();
        self.ask::<()>(&zadd);
    }

    /// Removes a permit as the release of another program does.
    pub fn release_as_java(&mut self, id: &str) {
        let id = u128::from_str_radix(id, 16).expect("an id").to_be_bytes();
        let (name, key) = (self.name.clone(), self.leases_key());
        let removed: i64 = self.ask(redis::cmd("ZREM").arg(key).arg(&id[..]));
        assert_eq!(removed, 1);
        self.ask::<()>(redis::cmd("INCRBY").arg(name).arg(1));
    }
}
