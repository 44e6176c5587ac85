//! One lock or semaphore: its owners, and how many connections listen for its release.

use redis::{Cmd, ErrorKind, ServerErrorKind, Value};

use super::args::RedisArgs;
use super::details::Share;
use super::kinds::Kind;
use super::name::Name;
use super::outcome::{Failure, NOT_HELD, Result, UNAVAILABLE, settle};
use super::probe::{Found, Probe, command};
use super::reporter::Reporter;
use super::row::Row;
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
    /// The server that has its key.
    server: Server,
    /// Its key is moving to this server.
    asking: bool,
    pub(super) row: Row,
    pub(super) shares: Vec<Share>,
    /// How many connections listen for its release; `None` if the user may not read that.
    pub(super) listeners: Option<u64>,
}

/// The lock of this name at each server of a Redlock that has it, or at the only one.
pub(super) fn find_locks(
    redis: &RedisArgs,
    clients: &[LockClient],
    name: &Name,
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
pub(super) fn not_held(name: &Name, clients: &[LockClient]) -> Failure {
    let servers = deployments(clients);
    Failure::new(
        NOT_HELD,
        format!(
            "no client holds {name} at {servers}; leasehold list lists the locks that are held"
        ),
    )
}

/// The addresses of the servers, for messages.
pub(super) fn deployments(clients: &[LockClient]) -> String {
    let all: Vec<String> = clients.iter().map(admin::deployment).collect();
    all.join(", ")
}

/// The lock at the server of `client` that has it; `None` if no client holds it.
fn find_lock(
    place: usize,
    client: &LockClient,
    redis: &RedisArgs,
    name: &Name,
) -> Result<Option<FoundLock>> {
    let Some(text) = name.text() else {
        return find_bytes(place, client, name);
    };
    let mut home = admin::server_of(client, text)?;
    let (mut server, mut asking) = (home.clone(), false);
    for _ in 0..SERVERS {
        let error = match look_at(client, &server, name, asking) {
            Ok((Found::Held(row), shares)) => {
                let channels = channels(client, text, &row, &shares);
                let listeners = listeners(client, &home, &channels, redis.cluster);
                let in_line = in_line(client, &server, text);
                let listeners = listeners.map(|listeners| listeners + in_line);
                return Ok(Some(FoundLock {
                    place,
                    server,
                    asking,
                    row,
                    shares,
                    listeners,
                }));
            }
            Ok((Found::Nothing, _)) => return Ok(None),
            Ok((Found::Gone, _)) => return Err(changes_too_quickly(name)),
            Ok((Found::Other, _)) => match client.inspect(text) {
                Err(error @ Error::WrongType { .. }) => return Err(error.into()),
                Ok(status) if is_read_write(&status) => {
                    return Err(wrong_type(name, &server, "a read-write lock"));
                }
                // Meanwhile it became a lock, or was deleted.
                Ok(_) => continue,
                // There are no details, for example because the user may not run scripts.
                Err(_) => return Err(wrong_type(name, &server, "a value that is not a lock")),
            },
            Err(error) => error,
        };
        let Some(next) = server.redirect(client, text, &error) else {
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

/// Finds a lock whose name is not UTF-8. The library computes neither slot nor channels of such a
/// name, so this asks all servers.
fn find_bytes(place: usize, client: &LockClient, name: &Name) -> Result<Option<FoundLock>> {
    for server in admin::servers(client)? {
        match look_at(client, &server, name, false) {
            Ok((Found::Held(row), shares)) => {
                return Ok(Some(FoundLock {
                    place,
                    server,
                    asking: false,
                    row,
                    shares,
                    listeners: None,
                }));
            }
            Ok((Found::Nothing, _)) => {}
            Ok((Found::Gone, _)) => return Err(changes_too_quickly(name)),
            Ok((Found::Other, _)) => {
                return Err(wrong_type(name, &server, "a value that is not a lock"));
            }
            Err(error) if error.cause.kind() == ErrorKind::Server(ServerErrorKind::Moved) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn changes_too_quickly(name: &Name) -> Failure {
    let message = format!("the owner of {name} changes too quickly; try again");
    Failure::new(UNAVAILABLE, message)
}

fn wrong_type(name: &Name, server: &Server, what: &str) -> Failure {
    Failure::from(Error::WrongType {
        lock: name.lossy().into(),
        node: server.name().into(),
        found: format!("{what} in the key {:?}", name.lossy()),
    })
}

impl FoundLock {
    /// Sends a command to the server of the lock.
    pub(super) fn run(&self, client: &LockClient, command: Cmd) -> Result<Value, ServerError> {
        let mut probe = Probe::connect(client, &self.server)?;
        let mut replies = probe.run_all(vec![command], self.asking)?;
        replies.pop().unwrap_or(Ok(Value::Nil))
    }
}

/// True for the state of a read-write lock, which this program does not show yet.
fn is_read_write(status: &LockStatus) -> bool {
    let owner = status.owner.as_deref().unwrap_or_default();
    status.readers > 0 || owner.ends_with(":write")
}

fn look_at(
    client: &LockClient,
    server: &Server,
    name: &Name,
    asking: bool,
) -> Result<(Found, Vec<Share>), ServerError> {
    let mut probe = Probe::connect(client, server)?;
    for _ in 0..LOOKS {
        match probe.find(name.bytes(), asking)? {
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

/// How many clients are in the line of the lock and do not listen to its channel; 0 if the user may
/// not ask, and while its slot moves to another server.
fn in_line(client: &LockClient, server: &Server, name: &str) -> u64 {
    // Places have times as scores. That of the client which also listens to a semaphore is 1, in a
    // second entry.
    let count = |least: &str, most: &str| {
        let line = LockKeys::new(client, name).line;
        let count = command("ZCOUNT", line).arg(least).arg(most).clone();
        let mut probe = Probe::connect(client, server).ok()?;
        let reply = probe.run(&count).ok()?;
        probe.decode::<u64>(reply).ok()
    };
    let (places, listening) = (count("1000000000", "+inf"), count("1", "1"));
    places.unwrap_or(0).saturating_sub(listening.unwrap_or(0))
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
