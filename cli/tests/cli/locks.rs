//! Locks for the program to find.

use std::time::Duration;

use leasehold::{Lease, LockClient, LockGuard, RedLock};
use redis::Cmd;
use serde_json::Value;

use crate::program::{Output, Program, leasehold};
use crate::support::deployment::Independent;
use crate::support::server::Server;
use crate::support::timing::eventually_some;

pub const MINUTE: Duration = Duration::from_secs(60);

pub const LONG_TIMEOUT: &str = "5s";

/// An owner that is no thread of this process.
pub const OTHER_OWNER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:17";

/// Keys that hold no lock: the command that makes each, and what an error says of it.
pub const OTHER_KINDS: [(&str, &str, &str); 5] = [
    ("text", "SET text one", "a string"),
    ("user", "HSET user name Ann", "not a hold count"),
    ("two", "HSET two a 1 b 1", "a hash of 2 fields"),
    ("mode", "HSET mode mode read name Ann", "a read-write lock"),
    ("big", "HSET big other:1 4294967296", "not a hold count"),
];

pub fn client(server: &Server) -> LockClient {
    LockClient::connect(&server.url()).expect("the address is good")
}

/// The program, with time for a machine that is busy with other tests.
pub fn with_long_timeout(url: &str) -> Program {
    leasehold(url).env("LEASEHOLD_TIMEOUT", LONG_TIMEOUT)
}

/// What the program does with these words, which are separated by spaces.
#[track_caller]
pub fn ask(server: &Server, words: &str) -> Output {
    ask_at(&server.url(), words)
}

#[track_caller]
pub fn ask_at(url: &str, words: &str) -> Output {
    with_long_timeout(url).args(words.split(' ')).output()
}

/// Held for a minute.
pub fn hold(client: &LockClient, name: &str) -> LockGuard {
    let lock = client.reentrant_lock(name);
    let guard = lock.try_acquire(Duration::ZERO, Lease::fixed(MINUTE));
    guard.expect("an answer").expect("a free lock")
}

/// The same as a Redlock, on all of these servers.
pub fn hold_everywhere(servers: &Independent, name: &str) -> LockGuard {
    // A holder that learns of the loss of one part releases the others.
    let unconfirmed = |server: &Server| {
        let builder = LockClient::builder(&*server.url()).confirm_every(Duration::ZERO);
        builder.build().expect("the settings are valid")
    };
    let clients: Vec<LockClient> = servers.servers().iter().map(unconfirmed).collect();
    let lock = RedLock::new(&clients, name);
    // A majority is enough for a grant, and a busy server may come too late for it.
    eventually_some("all servers to grant it", || {
        let guard = lock.try_acquire(MINUTE, Lease::fixed(MINUTE));
        let guard = guard.expect("an answer").expect("a free lock");
        let exists = |server: &Server| server.ask(redis::cmd("EXISTS").arg(name));
        servers.servers().iter().all(exists).then_some(guard)
    })
}

/// As another client holds it, without a process that does.
pub fn plant(server: &Server, name: &[u8]) {
    let () = server.ask(Cmd::new().arg("HSET").arg(name).arg(OTHER_OWNER).arg(1));
    let () = server.ask(Cmd::new().arg("PEXPIRE").arg(name).arg(60_000));
}

/// Sends commands whose words are separated by spaces.
pub fn send(server: &Server, commands: &[&str]) {
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let _: redis::Value = server.ask(Cmd::new().arg(words));
    }
}

/// What `--json` printed.
#[track_caller]
pub fn objects(output: &Output) -> Vec<Value> {
    let lines = output.lines();
    let read = |line: &String| serde_json::from_str(line).expect("an object a line");
    lines.iter().map(read).collect()
}

#[track_caller]
pub fn names(output: &Output) -> Vec<String> {
    let name = |object: &Value| object["name"].as_str().expect("a name").to_owned();
    objects(output).iter().map(name).collect()
}
