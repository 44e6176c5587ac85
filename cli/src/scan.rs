//! Which locks there are, asked of every server that has some.

use std::collections::BTreeMap;

use redis::Cmd;

use super::args::RedisArgs;
use super::outcome::{Failure, Result};
use super::probe::Probe;
use super::reporter::Reporter;
use super::row::Row;
use leasehold::LockClient;
use leasehold::admin::{self, Server};

/// How many keys Redis looks at before it answers: it does nothing else meanwhile.
const BATCH: usize = 500;

/// What was seen, in the order of names.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) rows: Vec<Row>,
    /// How many servers there are.
    pub(super) servers: usize,
    pub(super) failures: Vec<Failure>,
}

impl Scan {
    /// All locks with names like `pattern`; ends early, with what it has, once `stopped` says so:
    /// nobody is asked any more then.
    pub(super) fn run(clients: &[LockClient], pattern: &str, stopped: &dyn Fn() -> bool) -> Self {
        let mut seen = Self::default();
        for client in clients {
            if stopped() {
                break;
            }
            seen.survey(client, pattern, stopped);
        }
        seen.rows
            .sort_by(|a, b| (&a.name, &a.server).cmp(&(&b.name, &b.server)));
        seen
    }

    fn survey(&mut self, client: &LockClient, pattern: &str, stopped: &dyn Fn() -> bool) {
        let servers = match admin::servers(client) {
            Ok(servers) => servers,
            Err(error) => {
                self.servers += 1;
                self.failures.push(error.into());
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
            if let Err(failure) = scan(client, server, pattern, stopped, &mut found) {
                self.failures.push(failure);
            }
        }
        self.rows.extend(found.into_values());
    }

    /// That these servers, which answered, are all that there are: one of a cluster has the locks
    /// of its slots only, and does not say so.
    pub(super) fn check_deployment(&self, clients: &[LockClient], redis: &RedisArgs) -> Result<()> {
        let told = redis.cluster || redis.sentinel.is_some();
        if told || self.failures.len() == self.servers {
            return Ok(());
        }
        for client in clients {
            for server in admin::servers(client)? {
                // Who may not ask that may list all the same.
                if is_of_cluster(client, &server).unwrap_or(false) {
                    return Err(Failure::usage(format!(
                        "{} is a server of a cluster, and has the locks of its slots only: say \
                         --cluster",
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

/// What the failures of some of `asked` servers mean for the whole: where more than half must have
/// a lock, a few that do not answer hide nothing.
pub(super) fn settle(
    failures: Vec<Failure>,
    asked: usize,
    redis: &RedisArgs,
    reporter: Reporter,
) -> Result<()> {
    if redis.redlock && failures.len() * 2 < asked {
        failures
            .iter()
            .for_each(|failure| reporter.warning(failure));
        return Ok(());
    }
    failures.into_iter().next().map_or(Ok(()), Err)
}

fn scan(
    client: &LockClient,
    server: &Server,
    pattern: &str,
    stopped: &dyn Fn() -> bool,
    found: &mut BTreeMap<Vec<u8>, Row>,
) -> Result<()> {
    let mut probe = Probe::connect(client, server)?;
    let mut cursor = 0;
    let mut by_type = true;
    while !stopped() {
        let reply = match probe.run(&next_keys(cursor, pattern, by_type)) {
            // Before Redis 6 there is no TYPE.
            Err(error) if by_type && error.is_reply() => {
                by_type = false;
                continue;
            }
            reply => reply?,
        };
        let (next, keys): (u64, Vec<Vec<u8>>) = probe.decode(reply)?;
        for row in probe.locks(&keys)? {
            found.insert(row.name.clone(), row);
        }
        if next == 0 {
            break;
        }
        cursor = next;
    }
    Ok(())
}

fn is_of_cluster(client: &LockClient, server: &Server) -> Result<bool> {
    let mut probe = Probe::connect(client, server)?;
    let reply = probe.run(redis::cmd("INFO").arg("cluster"))?;
    let info: String = probe.decode(reply)?;
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
            let seen = Scan::run(&clients, "*", &stopped);
            assert!(seen.failures.is_empty(), "{seen:?}");
            assert_eq!(seen.servers, 0);
        }
    }
}
