//! All locks, from every server that has some.

use std::collections::BTreeMap;

use super::kinds::{LEASES, decoded, is_beside_a_lock, semaphores_of};
use super::outcome::{Failure, Result, UNAVAILABLE};
use super::probe::{Probe, Read, command};
use super::row::Row;
use leasehold::LockClient;
use leasehold::admin;

/// How many keys Redis looks at for one reply. It serves no other client meanwhile.
const BATCH: usize = 500;

/// The pattern of all names.
const ALL: &str = "*";

/// Which keys are wanted. By default, what is held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'a> {
    /// The pattern of their names.
    pub(super) pattern: &'a str,
    /// Also numbers, which may be semaphores or latches.
    pub(super) numbers: bool,
    /// Also the processes of the owners. To find them, each server lists all its connections.
    pub(super) holders: bool,
    /// A server that belongs to a cluster is a mistake: it has only the locks of its own slots.
    pub(super) no_cluster: bool,
}

/// One pass over the keys of a server.
struct Pass<'a> {
    /// The pattern and the type of the keys.
    keys: String,
    of_type: &'static str,
    /// The names of the locks to which such a key belongs.
    names: fn(&str) -> [Option<&str>; 2],
    read: Read<'a>,
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
            let servers = admin::servers(client).map_err(Failure::from);
            let servers = servers.map_err(|failure| scan.failures.push(failure));
            scan.servers += servers.as_ref().map_or(1, Vec::len);
            // SCAN can return a key twice. Two primaries return a key that moves between them.
            let mut found = BTreeMap::new();
            for server in servers.unwrap_or_default() {
                let probe = Probe::connect(client, &server, false).map_err(Failure::from);
                let scanned = probe.and_then(|mut probe| {
                    if wanted.no_cluster && is_of_cluster(&mut probe) {
                        return Err(Failure::usage(format!(
                            "{} is a server of a cluster, and has only the locks of its slots: \
                             use --cluster",
                            server.name()
                        )));
                    }
                    scan_server(probe, wanted, &mut found)
                });
                scan.failures.extend(scanned.err());
            }
            scan.rows.extend(found.into_values());
        }
        scan.rows
            .sort_by(|a, b| (&a.name, &a.server).cmp(&(&b.name, &b.server)));
        scan
    }

    pub(super) fn names_servers(&self) -> bool {
        self.servers > 1
    }
}

fn scan_server(
    mut probe: Probe<'_>,
    wanted: Wanted<'_>,
    found: &mut BTreeMap<String, Row>,
) -> Result<()> {
    let mut by_type = true;
    for pass in wanted.passes() {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let of_type = by_type.then_some(("TYPE", pass.of_type));
            let scan = ("SCAN", from, "MATCH", &pass.keys, "COUNT", BATCH, of_type);
            let reply = match probe.run(&command(scan)) {
                // SCAN has no TYPE before Redis 6.
                Err(error) if by_type && error.is_reply() => {
                    by_type = false;
                    continue;
                }
                reply => reply?,
            };
            let Some((next, keys)) = decoded::<(u64, Vec<Vec<u8>>)>(reply) else {
                let server = probe.server.name();
                let message = format!("unexpected reply to SCAN from Redis at {server}");
                return Err(Failure::new(UNAVAILABLE, message));
            };
            // Any other name is no lock.
            let keys = keys.iter().flat_map(|key| str::from_utf8(key));
            let names: Vec<&str> = keys.flat_map(pass.names).flatten().collect();
            for row in probe.rows(&names, pass.read)? {
                // A semaphore with leased permits is a number, too.
                found.entry(row.name.clone()).or_insert(row);
            }
            cursor = (next != 0).then_some(next);
        }
    }
    let server = probe.server.name().to_owned();
    let own = |row: &&mut Row| *row.server == *server && row.kind.hold().is_some();
    let mut owned = found.values_mut().filter(own).peekable();
    if wanted.holders && owned.peek().is_some() {
        let clients = probe.clients();
        owned.for_each(|row| row.find_holder(&clients));
    }
    Ok(())
}

/// False also for a user without the permission for INFO, who may list the locks.
fn is_of_cluster(probe: &mut Probe<'_>) -> bool {
    let info = probe.run(&command(("INFO", "cluster"))).ok();
    let info = info.and_then(decoded::<String>);
    info.is_some_and(|info| info.contains("cluster_enabled:1"))
}

impl Wanted<'_> {
    fn passes<'p>(self) -> Vec<Pass<'p>> {
        let pattern = self.pattern;
        let leases = |keys, names| Pass {
            keys,
            of_type: "zset",
            names,
            read: Probe::semaphores,
        };
        let mut passes = vec![Pass {
            keys: pattern.into(),
            of_type: "hash",
            names: |key| [Some(key), None],
            read: Probe::hashes,
        }];
        // The names of the sorted sets of leased permits are made from those of the semaphores:
        // with braces around a name without braces. The pattern for all names finds both.
        let whole = [pattern, LEASES].concat();
        if pattern == ALL {
            passes.push(leases(whole, semaphores_of));
        } else {
            let tagged = ["{", pattern, "}", LEASES].concat();
            passes.push(leases(tagged, |key| [semaphores_of(key)[0], None]));
            passes.push(leases(whole, |key| [None, semaphores_of(key)[1]]));
        }
        if self.numbers {
            passes.push(Pass {
                keys: pattern.into(),
                of_type: "string",
                names: |key| [Some(key).filter(|key| !is_beside_a_lock(key)), None],
                read: Probe::numbers,
            });
        }
        passes
    }
}
