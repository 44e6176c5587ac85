//! The state of a lock in Redis, as any other program sees it.

use redis::FromRedisValue;

use crate::support::prelude::*;

fn ask<T: FromRedisValue>(server: &Server, command: &str, name: &str) -> T {
    server.ask(redis::cmd(command).arg(name))
}

/// The holders of the lock and their counts. The field of a writer ends with `:write`.
pub fn holders(server: &Server, name: &str) -> Vec<(String, u32)> {
    let fields: Vec<(String, String)> = ask(server, "HGETALL", name);
    let holders = fields.into_iter().filter(|(field, _)| field != "mode");
    holders
        .map(|(owner, count)| (owner, count.parse().expect("a hold count")))
        .collect()
}

/// The holder of the lock, once its count is written.
#[track_caller]
pub fn holder_with_count(server: &Server, name: &str, count: u32) -> Vec<(String, u32)> {
    eventually_some("the count", || {
        let holders = holders(server, name);
        (holders.len() == 1 && holders[0].1 == count).then_some(holders)
    })
}

/// The hold count; zero without a holder.
pub fn count(server: &Server, name: &str) -> u32 {
    holders(server, name).iter().map(|(_, count)| count).sum()
}

#[track_caller]
pub fn await_count(server: &Server, name: &str, expected: u32) {
    eventually("the count in Redis", || count(server, name) == expected);
}

pub fn is_free(server: &Server, name: &str) -> bool {
    holders(server, name).is_empty()
}

/// What is left of the lease; zero without a lock.
pub fn time_to_live(server: &Server, name: &str) -> Duration {
    let millis: i64 = ask(server, "PTTL", name);
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// The end of the lease by the server's clock. It is constant as long as no client touches the
/// lock.
pub fn end_of_lease(server: &Server, name: &str) -> i64 {
    ask(server, "PEXPIRETIME", name)
}

/// The number of clients that listen for the lock, of any kind: to one of its channels, or from a
/// place in its line.
pub fn listeners(server: &Server, name: &str) -> u32 {
    listening(&mut server.connection(), name)
}

/// Waits until this number of clients listens for the lock.
#[track_caller]
pub fn await_listeners(server: &Server, name: &str, count: u32) {
    eventually("the waiters to listen", || listeners(server, name) == count);
}

/// The number of clients that listen for the lock, read through this connection.
pub fn listening(redis: &mut Connection, name: &str) -> u32 {
    let line = format!("leasehold_line:{{{name}}}");
    let places = redis::cmd("ZRANGE").arg(line).arg(0).arg(-1).query(redis);
    // With the mark of a call, which is no channel. In a cluster, this is not the server of each
    // key.
    let mut places: Vec<String> = places.unwrap_or_default();
    // Each client that waits for a fair lock has a channel of its own. In a cluster, a place is
    // one.
    let own = format!("{{{name}}}");
    places.retain(|place| !place.contains(&own));
    let mut all = 0;
    for place in places {
        let subscribers = redis::cmd("PUBSUB").arg("NUMSUB").arg(place).query(redis);
        let (_, subscribers): (String, u32) = subscribers.expect("the server replies");
        all += subscribers;
    }
    let pattern = format!("*{own}*");
    for [list, count] in [["CHANNELS", "NUMSUB"], ["SHARDCHANNELS", "SHARDNUMSUB"]] {
        let channels = redis::cmd("PUBSUB").arg(list).arg(&pattern).query(redis);
        // A server that does not know shard channels has no subscribers of them.
        let channels: Vec<String> = channels.unwrap_or_default();
        for channel in channels {
            let subscribers = redis::cmd("PUBSUB").arg(count).arg(channel).query(redis);
            let (_, subscribers): (String, u32) = subscribers.expect("the server replies");
            all += subscribers;
        }
    }
    all
}
