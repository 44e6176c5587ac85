//! One lock or semaphore: its owners, and how many connections listen for its release.

use redis::{ErrorKind, ServerErrorKind, Value};

use super::args::RedisArgs;
use super::kinds::{Kind, decoded};
use super::name::shown;
use super::outcome::{Failure, Result, UNAVAILABLE, settle};
use super::probe::{Found, Probe, command};
use super::row::{Row, Share};
use leasehold::admin::{self, LockKeys, Server};
use leasehold::{Error, LockClient};

/// How many redirects are followed from one server of a cluster to the next.
const REDIRECTS: usize = 4;

/// A lock that is held, or a semaphore.
#[derive(Debug)]
pub(super) struct FoundLock<'a> {
    /// The index of the client that found it.
    pub(super) place: usize,
    /// Connected to the server that has its key.
    pub(super) probe: Probe<'a>,
    pub(super) row: Row,
    pub(super) shares: Vec<Share>,
    /// How many connections listen for its release, and how many clients are in its line without
    /// that; `None` if the user may not read it.
    pub(super) listeners: Option<u64>,
}

/// The lock of this name at each server of a Redlock that has it, or at the only one.
pub(super) fn find_locks<'a>(
    redis: &RedisArgs,
    clients: &'a [LockClient],
    name: &str,
) -> Result<Vec<FoundLock<'a>>> {
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for (place, client) in clients.iter().enumerate() {
        match find_lock(place, client, redis.cluster, name) {
            Ok(lock) => found.extend(lock),
            Err(failure) => failures.push(failure),
        }
    }
    settle(failures, clients.len(), redis.redlock)?;
    Ok(found)
}

/// The locks as [`find_locks`] finds them. Fails if there is none.
pub(super) fn find_held<'a>(
    redis: &RedisArgs,
    clients: &'a [LockClient],
    name: &str,
) -> Result<Vec<FoundLock<'a>>> {
    let found = find_locks(redis, clients, name)?;
    if found.is_empty() {
        return Err(not_held(name, clients));
    }
    Ok(found)
}

/// The failure if no server has the lock.
pub(super) fn not_held(name: &str, clients: &[LockClient]) -> Failure {
    let (name, servers) = (shown(name), deployments(clients));
    Failure::not_held(format!(
        "no client holds {name} at {servers}; leasehold list lists the locks that are held"
    ))
}

/// The addresses of the servers, for messages.
pub(super) fn deployments(clients: &[LockClient]) -> String {
    let all: Vec<String> = clients.iter().map(admin::deployment).collect();
    all.join(", ")
}

/// The lock at the server of `client` that has it; `None` if no client holds it.
fn find_lock<'a>(
    place: usize,
    client: &'a LockClient,
    in_cluster: bool,
    name: &str,
) -> Result<Option<FoundLock<'a>>> {
    let Some((mut probe, found)) = locate(client, name)? else {
        return Ok(None);
    };
    let Found::Held(mut row) = found else {
        return Err(not_a_lock(client, &probe.server, name));
    };
    let mut shares = probe.shares(&row)?;
    if row.kind.is_lock() {
        let clients = probe.clients();
        row.find_holder(&clients);
        for share in &mut shares {
            share.holder = clients.holder(&share.who);
        }
    }
    let keys = LockKeys::new(client, name);
    let channels = channels(&keys, &row, &shares);
    let listeners = count_listeners(&mut probe, &channels, in_cluster)
        .map(|listening| listening + count_line(&mut probe, &keys).unwrap_or(0));
    Ok(Some(FoundLock {
        place,
        probe,
        row,
        shares,
        listeners,
    }))
}

/// What the key is, by a probe of the server that has it. `None` if no server has the key.
fn locate<'a>(client: &'a LockClient, name: &str) -> Result<Option<(Probe<'a>, Found)>> {
    let mut server = admin::server_of(client, name)?;
    let mut asking = false;
    for _ in 0..=REDIRECTS {
        let mut probe = Probe::connect(client, &server, asking)?;
        let error = match probe.find(name) {
            Ok(Found::Nothing) => return Ok(None),
            Ok(found) => return Ok(Some((probe, found))),
            Err(error) => error,
        };
        let Some(next) = server.redirect(client, name, &error) else {
            return Err(error.into());
        };
        asking = error.cause.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        server = next;
    }
    Err(Failure::new(UNAVAILABLE, "too many MOVED or ASK redirects"))
}

/// The failure if the key is not a lock, with its type if the user may run scripts.
fn not_a_lock(client: &LockClient, server: &Server, name: &str) -> Failure {
    match client.inspect(name) {
        Err(error @ Error::WrongType { .. }) => error.into(),
        // Of a hash, the library looks at some of the fields only.
        _ => Failure::from(Error::WrongType {
            lock: name.into(),
            node: server.name().into(),
            found: format!("a value that is not a lock in the key {name:?}"),
        }),
    }
}

/// How many connections listen for releases of the lock. In a cluster with shard channels they use
/// those.
fn count_listeners(probe: &mut Probe<'_>, channels: &[String], in_cluster: bool) -> Option<u64> {
    let mut count = |of| probe.run(&command(("PUBSUB", of, channels))).ok();
    let sharded = in_cluster.then(|| count("SHARDNUMSUB")).flatten();
    let counts = sharded.or_else(|| count("NUMSUB")).and_then(decoded);
    let counts: Vec<(Value, u64)> = counts?;
    Some(counts.iter().map(|(_, listeners)| listeners).sum())
}

/// How many clients are in the line of the lock and do not listen to its channel; `None` if the
/// user may not ask, and while its slot moves to another server.
fn count_line(probe: &mut Probe<'_>, keys: &LockKeys) -> Option<u64> {
    let mut count = |least, most| -> Option<u64> {
        let count = command(("ZCOUNT", &keys.line, least, most));
        decoded(probe.run(&count).ok()?)
    };
    // Places have times as scores. That of the client which also listens to a semaphore is 1, in a
    // second entry.
    Some(count("1000000000", "+inf")?.saturating_sub(count("1", "1")?))
}

/// The channels on which clients listen for a release. Of a fair lock, each place has its own.
fn channels(keys: &LockKeys, row: &Row, shares: &[Share]) -> Vec<String> {
    let place = |place: &Share| format!("{}:{}", keys.channel, place.who);
    match row.kind {
        Kind::Lock { .. } => {
            let places = shares.iter().map(place);
            places.chain([keys.channel.clone()]).collect()
        }
        Kind::ReadWrite { .. } => vec![keys.read_write_channel.clone()],
        Kind::Permits { .. } => vec![keys.semaphore_channel.clone()],
        Kind::Number(_) => vec![keys.semaphore_channel.clone(), keys.latch_channel.clone()],
    }
}
