//! The commands of the in-memory server reply as those of Redis do.

use leasehold::testing::InMemoryRedis;
use redis::Value;

use crate::support::prelude::*;

/// One command on each line of the file. Words are separated by spaces.
const COMMANDS: &str = include_str!("commands.txt");

/// The value, or the code of the error and the first words of its text.
fn reply_to(connection: &mut Connection, words: &[&str]) -> Result<Value, String> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let reply: Result<Value, _> = command.query(connection);
    reply.map_err(|error| format!("{:?} {:?}", error.kind(), error.code()))
}

#[test]
fn they_reply_as_those_of_redis_do() {
    let (server, redis) = (Server::start(), InMemoryRedis::start().expect("loopback"));
    let real = redis::Client::open(server.url()).expect("valid");
    let ours = redis::Client::open(redis.url()).expect("valid");
    let mut real = real.get_connection().expect("it runs");
    let mut ours = ours.get_connection().expect("it runs");
    let mut different = Vec::new();
    for line in COMMANDS.lines().filter(|line| !line.is_empty()) {
        // A script may contain a space.
        let words: Vec<&str> = match line.strip_prefix("EVAL return ") {
            Some(rest) => {
                let (script, rest) = rest.split_once(' ').expect("the number of keys");
                let script = &line["EVAL ".len()..][..script.len() + "return ".len()];
                ["EVAL", script]
                    .into_iter()
                    .chain(rest.split(' '))
                    .collect()
            }
            None => line.split(' ').collect(),
        };
        let (expected, found) = (reply_to(&mut real, &words), reply_to(&mut ours, &words));
        if !are_alike(&expected, &found) {
            different.push(format!("{line}: {expected:?}, but here {found:?}"));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

/// True if they are equal. Times to live may differ by what has passed, and the role has numbers of
/// the replication.
fn are_alike(expected: &Result<Value, String>, found: &Result<Value, String>) -> bool {
    match (expected, found) {
        (Ok(Value::Int(one)), Ok(Value::Int(other))) if *one > 90_000 => {
            (one - other).abs() < 10_000
        }
        (Ok(Value::Array(one)), Ok(Value::Array(other)))
            if one.first() == Some(&Value::BulkString(b"master".to_vec())) =>
        {
            one.len() == other.len() && other.first() == one.first()
        }
        _ => expected == found,
    }
}
