//! Locks for the program to find, and what it says of them.

use std::time::Duration;

use leasehold::{Lease, LockClient, LockGuard, RedLock};
use redis::Cmd;
use serde_json::Value;

use crate::program::{Output, Program, leasehold};
use crate::support::deployment::{ClusterDeployment, Independent};
use crate::support::server::Server;
use crate::support::timing::{eventually, eventually_some};

pub const MINUTE: Duration = Duration::from_secs(60);

pub const LONG_TIMEOUT: &str = "5s";

/// An owner that is no thread of this process.
pub const OTHER_OWNER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:17";

/// Where Redis is: one URL, or several with commas.
pub trait Place {
    fn place(&self) -> String;
}

impl Place for Server {
    fn place(&self) -> String {
        self.url()
    }
}

impl Place for String {
    fn place(&self) -> String {
        self.clone()
    }
}

impl Place for Vec<String> {
    fn place(&self) -> String {
        self.join(",")
    }
}

pub fn client(server: &Server) -> LockClient {
    LockClient::connect(&server.url()).expect("the address is good")
}

pub fn client_of(cluster: &ClusterDeployment) -> LockClient {
    let client = LockClient::builder_cluster(cluster.urls()).build();
    client.expect("the addresses are good")
}

/// The program, with time for a machine that is busy with other tests.
pub fn with_long_timeout(at: &impl Place) -> Program {
    leasehold(&at.place()).env("LEASEHOLD_TIMEOUT", LONG_TIMEOUT)
}

/// What the program does with these words, which are separated by spaces.
#[track_caller]
pub fn ask(at: &impl Place, words: &str) -> Output {
    with_long_timeout(at).args(words.split(' ')).output()
}

/// The text that it prints.
#[track_caller]
pub fn text(at: &impl Place, words: &str) -> String {
    ask(at, words).expect(0).text()
}

/// What it prints with `--json`.
#[track_caller]
pub fn objects_at(at: &impl Place, words: &str) -> Vec<Value> {
    objects(&ask(at, &format!("{words} --json")).expect(0))
}

/// The first object that it prints with `--json`.
#[track_caller]
pub fn object(at: &impl Place, words: &str) -> Value {
    objects_at(at, words).remove(0)
}

/// The names of the objects that it prints with `--json`.
#[track_caller]
pub fn names_at(at: &impl Place, words: &str) -> Vec<String> {
    names(&objects_at(at, words))
}

/// What `--json` printed.
#[track_caller]
pub fn objects(output: &Output) -> Vec<Value> {
    let lines = output.lines();
    let read = |line: &String| serde_json::from_str(line).expect("an object a line");
    lines.iter().map(read).collect()
}

#[track_caller]
pub fn names(objects: &[Value]) -> Vec<String> {
    let name = |object: &Value| object["name"].as_str().expect("a name").to_owned();
    objects.iter().map(name).collect()
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
        let is_there = |server: &Server| exists(server, name);
        servers.servers().iter().all(is_there).then_some(guard)
    })
}

/// As another client holds it, without a process that does.
pub fn plant(server: &Server, name: impl AsRef<[u8]>) {
    let name = name.as_ref();
    let () = server.ask(Cmd::new().arg("HSET").arg(name).arg(OTHER_OWNER).arg(1));
    let () = server.ask(Cmd::new().arg("PEXPIRE").arg(name).arg(60_000));
}

/// A command whose words are separated by spaces.
pub fn command(words: &str) -> Cmd {
    let words: Vec<&str> = words.split(' ').collect();
    Cmd::new().arg(words).clone()
}

/// Sends a command whose words are separated by spaces.
pub fn send(server: &Server, words: &str) {
    let _: redis::Value = server.ask(&command(words));
}

/// Sends several.
pub fn send_all(server: &Server, commands: &[&str]) {
    commands.iter().for_each(|words| send(server, words));
}

pub fn exists(server: &Server, key: &str) -> bool {
    server.ask(Cmd::new().arg("EXISTS").arg(key))
}

pub fn keys(server: &Server) -> Vec<String> {
    server.ask(&command("KEYS *"))
}

/// How often each command was called.
pub fn calls(server: &Server, command: &str) -> usize {
    let stats: String = server.ask(&self::command("INFO commandstats"));
    let start = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&*start));
    let calls = line.and_then(|rest| rest.split(',').next()?.parse().ok());
    calls.unwrap_or(0)
}

/// A user who may do this, and the URL for it. The rules are separated by spaces.
pub fn with_user(server: &Server, user: &str, rules: &str) -> String {
    send(server, &format!("ACL SETUSER {user} on >secret {rules}"));
    format!("redis://{user}:secret@{}", server.address())
}

/// Waits until `count` clients are in the line of a lock.
pub fn await_waiters(server: &Server, key: &str, count: u64) {
    let line = command(&format!("ZCARD leasehold_line:{{{key}}}"));
    eventually("the clients to wait", || server.ask::<u64>(&line) == count);
}
