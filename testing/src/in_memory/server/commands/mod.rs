//! The commands. Each is a function of the keys and its arguments.

mod hashes;
mod keys;
mod lists;
mod sorted_sets;
mod texts;

use super::keyspace::{Failure, Keyspace, Value};
use super::reply::Reply;

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

pub(super) type Outcome = Result<Reply, Failure>;

/// The name and the arguments of a command. The number of arguments has been checked where it is
/// fixed; a missing one is an error anyway.
pub(super) struct Arguments<'a> {
    name: &'a str,
    list: &'a [Vec<u8>],
}

impl<'a> Arguments<'a> {
    fn len(&self) -> usize {
        self.list.len()
    }

    /// Those from `first` on: one or more.
    fn from(&self, first: usize) -> Result<&'a [Vec<u8>], Failure> {
        match self.list.get(first..) {
            Some(rest) if !rest.is_empty() => Ok(rest),
            _ => Err(self.wrong_number()),
        }
    }

    /// Those from `first` on, as pairs: one or more.
    fn pairs(&self, first: usize) -> Result<impl Iterator<Item = (&'a [u8], &'a [u8])>, Failure> {
        let rest = self.from(first)?;
        if rest.len() % 2 != 0 {
            return Err(self.wrong_number());
        }
        Ok(rest.chunks(2).map(|pair| (&*pair[0], &*pair[1])))
    }

    fn get(&self, at: usize) -> Result<&'a [u8], Failure> {
        match self.list.get(at) {
            Some(argument) => Ok(argument),
            None => Err(self.wrong_number()),
        }
    }

    fn int(&self, at: usize) -> Result<i64, Failure> {
        int(self.get(at)?)
    }

    /// An option, in lower case.
    fn word(&self, at: usize) -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(self.get(at)?).to_ascii_lowercase())
    }

    /// Fails unless there are exactly this many.
    fn exactly(&self, count: usize) -> Result<(), Failure> {
        if self.len() == count {
            Ok(())
        } else {
            Err(self.wrong_number())
        }
    }

    fn wrong_number(&self) -> Failure {
        wrong_number(self.name)
    }
}

pub(super) fn wrong_number(name: &str) -> Failure {
    format!("ERR wrong number of arguments for '{name}' command")
}

/// True if a command failed because the server does not know it, or not with these arguments.
pub(super) fn is_unknown(failure: &Failure) -> bool {
    let unknown = [
        "ERR unknown",
        "ERR wrong number",
        "ERR syntax",
        "ERR value is not a valid float",
    ];
    unknown.iter().any(|begin| failure.starts_with(begin))
}

/// Runs a command that uses keys only. `name` is in lower case.
pub(super) fn run(keys: &mut Keyspace, name: &str, arguments: &[Vec<u8>]) -> Outcome {
    let arguments = &Arguments {
        name,
        list: arguments,
    };
    match name {
        "dbsize" => Ok(Reply::count(keys.keys().len())),
        "decrby" => texts::add(keys, arguments, -1),
        "del" | "unlink" => keys::del(keys, arguments),
        "exists" => keys::exists(keys, arguments),
        "expire" => keys::expire(keys, arguments, 1000),
        "flushall" | "flushdb" => {
            keys.clear();
            Ok(Reply::ok())
        }
        "get" => texts::get(keys, arguments),
        "hdel" => hashes::hdel(keys, arguments),
        "hexists" => hashes::hexists(keys, arguments),
        "hget" => hashes::hget(keys, arguments),
        "hgetall" => hashes::hgetall(keys, arguments),
        "hlen" => hashes::hlen(keys, arguments),
        "hscan" => hashes::hscan(keys, arguments),
        "hset" => hashes::hset(keys, arguments),
        "incrby" => texts::add(keys, arguments, 1),
        "keys" => keys::keys(keys, arguments),
        "lindex" => lists::lindex(keys, arguments),
        "llen" => lists::llen(keys, arguments),
        "lpop" => lists::lpop(keys, arguments),
        "lrange" => lists::lrange(keys, arguments),
        "lrem" => lists::lrem(keys, arguments),
        "persist" => keys::persist(keys, arguments),
        "pexpire" => keys::expire(keys, arguments, 1),
        "pttl" => keys::time_to_live(keys, arguments, 1),
        "rpush" => lists::rpush(keys, arguments),
        "scan" => keys::scan(keys, arguments),
        "set" => texts::set(keys, arguments),
        "time" => keys::time(keys),
        "ttl" => keys::time_to_live(keys, arguments, 1000),
        "type" => keys::type_of(keys, arguments),
        "zadd" => sorted_sets::zadd(keys, arguments),
        "zcard" => sorted_sets::zcard(keys, arguments),
        "zcount" => sorted_sets::zcount(keys, arguments),
        "zrange" => sorted_sets::zrange(keys, arguments),
        "zrangebyscore" => sorted_sets::zrangebyscore(keys, arguments),
        "zrank" => sorted_sets::zrank(keys, arguments),
        "zrem" => sorted_sets::zrem(keys, arguments),
        "zscore" => sorted_sets::zscore(keys, arguments),
        _ => Err(format!(
            "ERR unknown command '{name}': the server of leasehold::testing does not have it"
        )),
    }
}

/// A number in an argument or a value.
fn int(text: &[u8]) -> Result<i64, Failure> {
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| NOT_AN_INTEGER.into())
}

/// The positions that a range with these ends has, of `length` elements. A negative end counts from
/// the last element.
fn range(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_start = |at: i64| if at < 0 { at + length } else { at };
    let start = from_start(start).clamp(0, length);
    let end = (from_start(end) + 1).clamp(start, length);
    let place = |at: i64| usize::try_from(at).unwrap_or(0);
    place(start)..place(end)
}
