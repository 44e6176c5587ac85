//! The commands of the in-memory server reply as those of Redis do.

use leasehold::testing::InMemoryRedis;
use redis::{Connection, Value};

use crate::support::server::Server;

/// One command on each line. Words are separated by spaces.
const COMMANDS: &str = "
PING
PING text
ECHO text
SET text 5
GET text
GET missing
SET text 6 NX
SET other 1 PX 100000 NX
SET other 2 XX
PTTL other
SET text 7 PX 0
SET text 7 FX
SET text
INCRBY text 10
DECRBY text 3
INCRBY new 2
SET words abc
INCRBY words 1
INCRBY text 9223372036854775807
INCRBY text x
TYPE text
TYPE missing
HSET hash a 1 b 2
HSET hash a 3 c 4
HSET hash a
HGET hash a
HGET hash x
HGET missing a
HGET text a
HSET text a 1
HEXISTS hash a
HEXISTS hash x
HGETALL hash
HGETALL missing
HLEN hash
HLEN missing
HDEL hash a x b
HDEL hash c
EXISTS hash text missing text
TYPE hash
PUBSUB NUMSUB channel other
PUBSUB NUMSUB
RPUSH list a b c a
RPUSH text a
LLEN list
LLEN missing
LINDEX list 0
LINDEX list -1
LINDEX list 4
LINDEX list -5
LRANGE list 0 -1
LRANGE list 1 2
LRANGE list -2 -1
LRANGE list 3 1
LRANGE list -100 100
LRANGE list 5 9
LREM list 0 a
LREM list 0 x
LPOP list
LPOP list
LPOP list
EXISTS list
ZADD set 2 b 1 a 3 c
ZADD set 4 a 2 b
ZADD set x a
ZADD set 1
ZADD text 1 a
ZCARD set
ZCARD missing
ZCOUNT set -inf +inf
ZCOUNT set (2 3
ZCOUNT set 2 (3
ZCOUNT set a b
ZRANGE set 0 0
ZRANGE set 0 -1 WITHSCORES
ZRANGE set -1 -1 WITHSCORES
ZRANGE missing 0 -1
ZRANGEBYSCORE set -inf 3
ZRANGEBYSCORE set -inf +inf LIMIT 1 1
ZRANGEBYSCORE set -inf +inf WITHSCORES LIMIT 0 -1
ZRANGEBYSCORE set (3 +inf
ZADD set 1700000000000 late 0.5 half
ZSCORE set late
ZSCORE set half
ZSCORE set x
ZREM set late x half
ZREM set a b c
EXISTS set
PTTL text
PTTL missing
PEXPIRE missing 100
PEXPIRE text 100000
PERSIST text
PERSIST text
PTTL text
EXPIRE text 100
TTL text
PEXPIRE text -1
EXISTS text
PEXPIRE other x
DEL other missing new
DBSIZE
KEYS w*
KEYS ?ords
KEYS x
PUBLISH channel message
SCRIPT EXISTS 0000000000000000000000000000000000000000
EVALSHA 0000000000000000000000000000000000000000 0
EVAL return{1,2.9,'a',true,false,3} 0
EVAL return{KEYS[1],ARGV[1],#ARGV} 1 key argument
EVAL return{ok='FINE'} 0
EVAL return{err='WRONGTYPE_it_is'} 0
EVAL return{1,nil,3} 0
EVAL return 2 key
EVAL return redis.call('get','words') 0
EVAL return redis.call('hget','words','a') 0
EVAL return redis.pcall('hget','words','a') 0
EVAL return redis.call('set','a',1.5) 0
GET a
EVAL return redis.call('set','a',1e15) 0
GET a
EVAL return type(redis.call('get','missing')) 0
EVAL return redis.call('type','words').ok 0
EVAL return tostring(redis.pcall('hget','words','a').err) 0
MULTI
SET in multi
GET in
EXEC
EXEC
MULTI
DISCARD
WAIT 1 10
ROLE
CLIENT SETNAME me
CLIENT GETNAME
SELECT 0
FLUSHALL
DBSIZE
";

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
