//! The floor of the kinds of locks: calls of scripts on one raw connection, without a library.

use redis::{Cmd, Connection, cmd};

use super::Server;

/// A connection, and calls that are sent one after the other.
pub struct RawCalls {
    connection: Connection,
    calls: Vec<Cmd>,
}

impl RawCalls {
    pub fn new(server: &Server) -> Self {
        Self {
            connection: server.connection(),
            calls: Vec::new(),
        }
    }

    /// Adds the call of a script that replies with 1.
    pub fn call(mut self, script: &str, keys: &[&str], arguments: &[&str]) -> Self {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(script);
        let hash: String = load
            .query(&mut self.connection)
            .expect("the script compiles");
        let mut call = cmd("EVALSHA");
        call.arg(hash).arg(keys.len()).arg(keys).arg(arguments);
        self.calls.push(call);
        self
    }

    /// Sends each call, and waits for its reply.
    pub fn run(&mut self) {
        for call in &self.calls {
            let reply: i64 = call.query(&mut self.connection).expect("a reply");
            assert_eq!(reply, 1);
        }
    }

    /// Runs a command that is not measured.
    pub fn prepare(&mut self, command: &Cmd) {
        let done: redis::RedisResult<()> = command.exec(&mut self.connection);
        done.expect("a reply");
    }
}
