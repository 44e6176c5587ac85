//! One lock or semaphore: its owners, and how many connections listen for its release.

use redis::{ErrorKind, ServerErrorKind, Value};

use super::args::RedisArgs;
use super::details::Share;
use super::kinds::Kind;
use super::outcome::{Failure, NOT_HELD, Result, UNAVAILABLE, settle};
use super::probe::{Found, Probe};
use super::reporter::Reporter;
use super::row::{Row, shown};
use leasehold::admin::{self, LockKeys, Server, ServerError};
use leasehold::{Error, LockClient, LockStatus};

/// How often a lock is read again that is released between two commands.
const LOOKS: usize = 10;

/// How many servers of a cluster are asked about one lock: redirects lead from one to the next.
const SERVERS: usize = 5;

/// A lock that is held, or a semaphore.
#[derive(Debug)]
pub(super) struct FoundLock {
    /// The index of the client that found it.
    pub(super) place: usize,
    pub(super) row: Row,
    pub(super) shares: Vec<Share>,
    /// How many connections listen for its release; `None` if the user may not read that.
    pub(super) listeners: Option<u64>,
}

/// The lock of this name at each server of a Redlock that has it, or at the only one.
pub(super) fn find_locks(
    redis: &RedisArgs,
    clients: &[LockClient],
    name: &str,
    reporter: Reporter,
) -> Result<Vec<FoundLock>> {
    let mut found = Vec::new();
    let mut failures = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        match find_lock(place, client, redis, name) {
            Ok(lock) => found.extend(lock),
            Err(failure) => failures.push(failure),
        }
    }
    settle(failures, clients.len(), redis.redlock, reporter)?;
    Ok(found)
}

/// The failure if no server has the lock.
pub(super) fn not_held(name: &str) -> Failure {
    Failure::new(NOT_HELD, format!("no client holds {}", shown(name)))
}

/// The lock at the server of `client` that has it; `None` if no client holds it.
fn find_lock(
    place: usize,
    client: &LockClient,
    redis: &RedisArgs,
    name: &str,
) -> Result<Option<FoundLock>> {
    let mut home = admin::server_of(client, name)?;
    let (mut server, mut asking) = (home.clone(), false);
    for _ in 0..SERVERS {
        let error = match look_at(client, &server, name, asking) {
            Ok((Found::Held(row), shares)) => {
                let channels = channels(client, name, &row, &shares);
                let listeners = listeners(client, &home, &channels, redis.cluster);
                return Ok(Some(FoundLock {
                    place,
                    row,
                    shares,
                    listeners,
                }));
            }
            Ok((Found::Nothing, _)) => return Ok(None),
            Ok((Found::Gone, _)) => {
                let name = shown(name);
                return Err(Failure::new(
                    UNAVAILABLE,
                    format!("the owner of {name} changes too quickly; try again"),
                ));
            }
            Ok((Found::Other, _)) => match client.inspect(name) {
                Err(error @ Error::WrongType { .. }) => return Err(error.into()),
                Ok(status) if is_read_write(&status) => {
                    return Err(Failure::from(Error::WrongType {
                        lock: name.into(),
                        node: server.name().into(),
                        found: format!("a read-write lock in the key {name:?}"),
                    }));
                }
                // Meanwhile it became a lock, or was deleted.
                Ok(_) => continue,
                // There are no details, for example because the user may not run scripts.
                Err(_) => {
                    return Err(Failure::from(Error::WrongType {
                        lock: name.into(),
                        node: server.name().into(),
                        found: format!("a value that is not a lock in the key {name:?}"),
                    }));
                }
            },
            Err(error) => error,
        };
        let Some(next) = server.redirect(client, name, &error) else {
            return Err(error.into());
        };
        server = next;
        asking = error.cause.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        if !asking {
            home = server.clone();
        }
    }
    Err(Failure::new(UNAVAILABLE, "too many MOVED or ASK redirects"))
}

/// True for the state of a read-write lock, which this program does not show yet.
fn is_read_write(status: &LockStatus) -> bool {
    let owner = status.owner.as_deref().unwrap_or_default();
    status.readers > 0 || owner.ends_with(":write")
}

fn look_at(
    client: &LockClient,
    server: &Server,
    name: &str,
    asking: bool,
) -> Result<(Found, Vec<Share>), ServerError> {
    let mut probe = Probe::connect(client, server)?;
    for _ in 0..LOOKS {
        match probe.find(name.as_bytes(), asking)? {
            Found::Gone => {}
            Found::Held(mut row) => {
                let mut shares = probe.shares(&row, asking)?;
                let has_owner = matches!(row.kind, Kind::Lock { .. } | Kind::ReadWrite { .. });
                if has_owner {
                    let clients = probe.clients();
                    row.find_holder(&clients);
                    for share in &mut shares {
                        share.holder = clients.holder(&share.who);
                    }
                }
                return Ok((Found::Held(row), shares));
            }
            found => return Ok((found, Vec::new())),
        }
    }
    Ok((Found::Gone, Vec::new()))
}

/// The channels on which clients listen for a release. Of a fair lock, each place has its own.
fn channels(client: &LockClient, name: &str, row: &Row, shares: &[Share]) -> Vec<String> {
    let keys = LockKeys::new(client, name);
    match row.kind {
        Kind::Lock { .. } => {
            let places = shares
                .iter()
                .map(|place| format!("{}:{}", keys.channel, place.who));
            places.chain([keys.channel.clone()]).collect()
        }
        Kind::ReadWrite { .. } => vec![keys.read_write_channel],
        Kind::Permits { .. } => vec![keys.semaphore_channel],
        Kind::Number(_) => vec![keys.semaphore_channel, keys.latch_channel],
    }
}

/// How many connections listen for releases of the lock. They listen at its server, also while its
/// slot moves to another one. In a cluster with shard channels they use those.
fn listeners(
    client: &LockClient,
    home: &Server,
    channels: &[String],
    in_cluster: bool,
) -> Option<u64> {
    let mut probe = Probe::connect(client, home).ok()?;
    let mut count = |command| probe.run(redis::cmd("PUBSUB").arg(command).arg(channels));
    let sharded = in_cluster.then(|| count("SHARDNUMSUB")).transpose();
    let reply = match sharded {
        Ok(Some(reply)) => reply,
        _ => count("NUMSUB").ok()?,
    };
    let counts: Vec<(Value, u64)> = probe.decode(reply).ok()?;
    Some(counts.iter().map(|(_, listeners)| listeners).sum())
}
