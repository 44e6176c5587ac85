//! What tests ask a server on a connection of their own.

use redis::FromRedisValue;

use super::Server;

/// The command of these words, which are separated by spaces.
pub fn command(words: &str) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    command.arg(words.split(' ').collect::<Vec<_>>());
    command
}

impl Server {
    /// Runs a command whose words have no spaces.
    #[track_caller]
    pub fn query<T: FromRedisValue>(&self, command: &str) -> T {
        self.ask(&self::command(command))
    }

    /// All keys, sorted.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.query("KEYS *");
        keys.sort_unstable();
        keys
    }

    /// The number of keys.
    pub fn size(&self) -> usize {
        self.query("DBSIZE")
    }

    pub fn has(&self, key: &str) -> bool {
        self.ask(redis::cmd("EXISTS").arg(key))
    }

    pub fn delete(&self, key: &str) {
        self.ask::<()>(redis::cmd("DEL").arg(key));
    }

    /// In milliseconds; negative without a key or without an expiry.
    pub fn time_to_live(&self, key: &str) -> i64 {
        self.ask(redis::cmd("PTTL").arg(key))
    }

    /// The number of connections that are subscribed to this channel.
    pub fn subscribers(&self, channel: &str) -> u32 {
        let numsub = redis::cmd("PUBSUB").arg("NUMSUB").arg(channel).clone();
        self.ask::<(String, u32)>(&numsub).1
    }

    /// Makes a user with these rules and no others, and returns the URL with its login.
    pub fn with_user<R: redis::ToRedisArgs>(&self, rules: R) -> String {
        let mut acl = redis::cmd("ACL");
        acl.arg(&["SETUSER", "worker", "reset", "on", ">secret"]);
        self.ask::<()>(acl.arg(rules));
        format!("redis://worker:secret@{}", self.address())
    }

    /// Cuts all connections of this type except the test's own.
    pub fn cut(&self, kind: &str) {
        self.run(&format!("CLIENT KILL TYPE {kind} SKIPME yes"));
    }

    /// Without memory, Redis refuses commands that write.
    pub fn limit_memory(&self, bytes: u32) {
        self.run(&format!("CONFIG SET maxmemory {bytes}"));
    }
}
