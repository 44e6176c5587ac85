//! Which locks there are, asked of every server that has some.

use std::collections::BTreeMap;

use redis::{Cmd, RedisResult, from_redis_value};

use super::args::RedisArgs;
use super::outcome::{Failure, Result, UNAVAILABLE, advised};
use super::probe::locks;
use super::row::Row;
use super::voice::Voice;
use crate::client::LockClient;
use crate::request::RedisClient;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// How many keys Redis looks at before it answers: it does nothing else meanwhile.
const BATCH: usize = 500;

/// What was seen, in the order of names.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) rows: Vec<Row>,
    /// How many servers there are.
    pub(super) servers: usize,
    pub(super) failures: Vec<Failure>,
}

impl Seen {
    /// All locks with names like `pattern`; ends early, with what it has, once `stopped` says so: nobody is
    /// asked any more then.
    pub(super) fn by_survey(
        clients: &[LockClient],
        pattern: &str,
        stopped: &dyn Fn() -> bool,
    ) -> Self {
        let mut seen = Self::default();
        for client in clients {
            if stopped() {
                break;
            }
            seen.survey(&client.core.redis, pattern, stopped);
        }
        seen.rows
            .sort_by(|a, b| (&a.name, &a.server).cmp(&(&b.name, &b.server)));
        seen
    }

    fn survey(&mut self, connections: &RedisClient, pattern: &str, stopped: &dyn Fn() -> bool) {
        let servers = match connections.servers() {
            Ok(servers) => servers,
            Err(route_error) => {
                self.servers += 1;
                self.failures.push(route_error.into());
                return;
            }
        };
        // SCAN may name a key twice, and two primaries one that is on its way.
        let mut found = BTreeMap::new();
        for server in &servers {
            if stopped() {
                break;
            }
            self.servers += 1;
            if let Err(error) = scan(connections, server, pattern, stopped, &mut found) {
                let (complaint, hint) = connections.complaint(server, &error);
                let complaint = advised(complaint, hint.as_deref());
                self.failures.push(Failure::new(UNAVAILABLE, complaint));
            }
        }
        self.rows.extend(found.into_values());
    }

    /// That these servers, which answered, are all that there are: one of a cluster has the locks of its slots
    /// only, and does not say so.
    pub(super) fn check_deployment(&self, clients: &[LockClient], redis: &RedisArgs) -> Result<()> {
        let told = redis.cluster || redis.sentinel.is_some();
        if told || self.failures.len() == self.servers {
            return Ok(());
        }
        for connections in clients.iter().map(|client| &client.core.redis) {
            for server in connections.servers()? {
                // Who may not ask that may list all the same.
                if is_of_cluster(connections, &server).unwrap_or(false) {
                    return Err(Failure::usage(format!(
                        "{} is a server of a cluster, and has the locks of its slots only: say --cluster",
                        server.name()
                    )));
                }
            }
        }
        Ok(())
    }

    pub(super) fn names_servers(&self) -> bool {
        self.servers > 1
    }
}

/// What the failures of some of `asked` servers mean for the whole: where more than half must have a lock,
/// a few that do not answer hide nothing.
pub(super) fn settle(
    failures: Vec<Failure>,
    asked: usize,
    redis: &RedisArgs,
    voice: Voice,
) -> Result<()> {
    if redis.redlock && failures.len() * 2 < asked {
        failures.iter().for_each(|failure| voice.warning(failure));
        return Ok(());
    }
    failures.into_iter().next().map_or(Ok(()), Err)
}

fn scan(
    connections: &RedisClient,
    server: &Server,
    pattern: &str,
    stopped: &dyn Fn() -> bool,
    found: &mut BTreeMap<Vec<u8>, Row>,
) -> RedisResult<()> {
    let mut talk = connections.talk(server)?;
    let mut cursor = 0;
    let mut by_type = true;
    while !stopped() {
        let reply = match talk.ask(&next_keys(cursor, pattern, by_type)) {
            // Before Redis 6 there is no TYPE.
            Err(error) if by_type && RetryAction::is_reply(&error) => {
                by_type = false;
                continue;
            }
            reply => reply?,
        };
        let (next, keys): (u64, Vec<Vec<u8>>) = from_redis_value(reply)?;
        for row in locks(&mut talk, server.name(), &keys)? {
            found.insert(row.name.clone(), row);
        }
        if next == 0 {
            break;
        }
        cursor = next;
    }
    Ok(())
}

fn is_of_cluster(connections: &RedisClient, server: &Server) -> RedisResult<bool> {
    let mut talk = connections.talk(server)?;
    let info: String = from_redis_value(talk.ask(redis::cmd("INFO").arg("cluster"))?)?;
    Ok(info.contains("cluster_enabled:1"))
}

fn next_keys(cursor: u64, pattern: &str, by_type: bool) -> Cmd {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern);
    scan.arg("COUNT").arg(BATCH);
    if by_type {
        scan.arg("TYPE").arg("hash");
    }
    scan
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn once_it_is_stopped_nobody_is_asked() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", silent.local_addr().unwrap());
        let clients = [LockClient::connect(&url).unwrap()];
        for asked_before in 0..2 {
            let left = Cell::new(asked_before);
            let stopped = || left.replace(left.get() - 1) == 0;
            let seen = Seen::by_survey(&clients, "*", &stopped);
            assert!(seen.failures.is_empty(), "{seen:?}");
            assert_eq!(seen.servers, 0);
        }
    }
}
