//! All locks, from every server that has some.

use std::collections::BTreeMap;

use redis::Cmd;

use super::args::RedisArgs;
use super::kinds::{LEASES, is_beside_a_lock, semaphores_of};
use super::outcome::{Failure, Result};
use super::probe::Probe;
use super::row::Row;
use leasehold::LockClient;
use leasehold::admin::{self, Server, ServerError};

/// How many keys Redis looks at for one reply. It serves no other client meanwhile.
const BATCH: usize = 500;

/// The pattern of all names.
const ALL: &[u8] = b"*";

/// Which keys are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The pattern of their names.
    pub(super) pattern: &'a [u8],
    /// Also numbers, which may be semaphores or latches.
    pub(super) numbers: bool,
    /// Also the processes of the owners. To find them, each server lists all its connections.
    pub(super) holders: bool,
}

/// The keys that one pass over a server looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Hashes,
    /// The sorted sets of leased permits, whose names are made from those of the semaphores: with
    /// braces around a name without braces.
    TaggedLeases,
    Leases,
    Numbers,
}

/// The locks that were found, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) rows: Vec<Row>,
    /// The number of servers that were asked.
    pub(super) servers: usize,
    pub(super) failures: Vec<Failure>,
}

impl Scan {
    /// Finds what is wanted.
    pub(super) fn run(clients: &[LockClient], wanted: Wanted<'_>) -> Self {
        let mut scan = Self::default();
        for client in clients {
            scan.client(client, wanted);
        }
        scan.rows
            .sort_by(|a, b| (&a.name, &a.server).cmp(&(&b.name, &b.server)));
        scan
    }

    fn client(&mut self, client: &LockClient, wanted: Wanted<'_>) {
        let servers = match admin::servers(client) {
            Ok(servers) => servers,
            Err(error) => {
                self.servers += 1;
                self.failures.push(error.into());
                return;
            }
        };
        // SCAN can return a key twice. Two primaries return a key that moves between them.
        let mut found = BTreeMap::new();
        for server in &servers {
            self.servers += 1;
            if let Err(failure) = scan_server(client, server, wanted, &mut found) {
                self.failures.push(failure);
            }
        }
        self.rows.extend(found.into_values());
    }

    /// Fails if a server belongs to a cluster and `--cluster` is missing: it has only the locks of
    /// its own slots.
    pub(super) fn check_deployment(&self, clients: &[LockClient], redis: &RedisArgs) -> Result<()> {
        let is_given = redis.cluster || redis.sentinel.is_some();
        if is_given || self.failures.len() == self.servers {
            return Ok(());
        }
        for client in clients {
            for server in admin::servers(client)? {
                // A user without the permission for INFO may list the locks.
                if is_of_cluster(client, &server).unwrap_or(false) {
                    return Err(Failure::usage(format!(
                        "{} is a server of a cluster, and has only the locks of its slots: use \
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

fn scan_server(
    client: &LockClient,
    server: &Server,
    wanted: Wanted<'_>,
    found: &mut BTreeMap<Vec<u8>, Row>,
) -> Result<()> {
    let mut probe = Probe::connect(client, server)?;
    let mut by_type = true;
    for pass in wanted.passes() {
        let mut cursor = 0;
        loop {
            let reply = match probe.run(&pass.next_keys(cursor, wanted.pattern, by_type)) {
                // SCAN has no TYPE before Redis 6.
                Err(error) if by_type && error.is_reply() => {
                    by_type = false;
                    continue;
                }
                reply => reply?,
            };
            let (next, keys): (u64, Vec<Vec<u8>>) = probe.decode(reply)?;
            for row in pass.rows(&mut probe, &keys, wanted.pattern)? {
                // A semaphore with leased permits is a number, too.
                found.entry(row.name.clone()).or_insert(row);
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
    }
    let own = |row: &&mut Row| &*row.server == server.name() && row.kind.hold().is_some();
    let mut owned = found.values_mut().filter(own).peekable();
    if wanted.holders && owned.peek().is_some() {
        let clients = probe.clients();
        owned.for_each(|row| row.find_holder(&clients));
    }
    Ok(())
}

impl<'a> Wanted<'a> {
    /// What is held.
    pub(super) fn locks(pattern: &'a [u8]) -> Self {
        Self {
            pattern,
            numbers: false,
            holders: false,
        }
    }

    fn passes(self) -> impl Iterator<Item = Pass> {
        let numbers = self.numbers.then_some(Pass::Numbers);
        // The pattern for all names also finds names with braces around them.
        let tagged = (self.pattern != ALL).then_some(Pass::TaggedLeases);
        [Pass::Hashes, Pass::Leases]
            .into_iter()
            .chain(tagged)
            .chain(numbers)
    }
}

impl Pass {
    fn next_keys(self, cursor: u64, pattern: &[u8], by_type: bool) -> Cmd {
        let (pattern, of_type) = match self {
            Self::Hashes => (pattern.into(), "hash"),
            Self::TaggedLeases => ([b"{", pattern, b"}", LEASES].concat(), "zset"),
            Self::Leases => ([pattern, LEASES].concat(), "zset"),
            Self::Numbers => (pattern.into(), "string"),
        };
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern);
        scan.arg("COUNT").arg(BATCH);
        if by_type {
            scan.arg("TYPE").arg(of_type);
        }
        scan
    }

    fn rows(
        self,
        probe: &mut Probe<'_>,
        keys: &[Vec<u8>],
        pattern: &[u8],
    ) -> Result<Vec<Row>, ServerError> {
        let keys = keys.iter().map(Vec::as_slice);
        match self {
            Self::Hashes => probe.locks(&keys.collect::<Vec<_>>()),
            Self::TaggedLeases | Self::Leases => {
                let names = keys.flat_map(|key| {
                    let [inner, whole] = semaphores_of(key);
                    let inner = inner.filter(|_| self == Self::TaggedLeases || pattern == ALL);
                    inner
                        .into_iter()
                        .chain(whole.filter(|_| self == Self::Leases))
                });
                probe.semaphores(&names.collect::<Vec<_>>())
            }
            Self::Numbers => {
                let own = keys.filter(|key| !is_beside_a_lock(key));
                probe.numbers(&own.collect::<Vec<_>>())
            }
        }
    }
}

fn is_of_cluster(client: &LockClient, server: &Server) -> Result<bool> {
    let mut probe = Probe::connect(client, server)?;
    let reply = probe.run(redis::cmd("INFO").arg("cluster"))?;
    let info: String = probe.decode(reply)?;
    Ok(info.contains("cluster_enabled:1"))
}
