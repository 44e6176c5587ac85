//! One lock: who holds it, and who listens for its release.

use redis::{ErrorKind, ServerErrorKind, Value};

use super::args::RedisArgs;
use super::outcome::{Failure, Result, UNAVAILABLE};
use super::probe::{Found, Probe};
use super::row::{Row, shown};
use leasehold::Error;
use leasehold::LockClient;
use leasehold::admin::{self, LockKeys, Server, ServerError};

/// How often a lock is looked at that is given back between two questions.
const LOOKS: usize = 10;

/// Servers of a cluster that are asked one after the other: one sends on to the next.
const SERVERS: usize = 5;

/// Who holds one lock, and who listens for its release.
#[derive(Debug)]
pub(super) struct FoundLock {
    /// That of the client which found it, among those that were asked.
    pub(super) place: usize,
    pub(super) row: Row,
    /// `None`: Redis does not tell this user.
    pub(super) listeners: Option<u64>,
}

/// The lock of this name, at the server of `client` that has it; `None` if nobody holds it.
pub(super) fn look(
    place: usize,
    client: &LockClient,
    redis: &RedisArgs,
    name: &str,
) -> Result<Option<FoundLock>> {
    let mut home = admin::server_of(client, name)?;
    let (mut server, mut asking) = (home.clone(), false);
    for _ in 0..SERVERS {
        let error = match look_at(client, &server, name, asking) {
            Ok(Found::Lock(row)) => {
                let listeners = listeners(client, &home, name, redis.cluster);
                return Ok(Some(FoundLock {
                    place,
                    row,
                    listeners,
                }));
            }
            Ok(Found::Nothing) => return Ok(None),
            Ok(Found::Gone) => {
                let name = shown(name);
                return Err(Failure::new(
                    UNAVAILABLE,
                    format!("{name} changes hands too quickly to be looked at; ask again"),
                ));
            }
            Ok(Found::NoLock) => match client.inspect(name) {
                Err(error @ Error::WrongType { .. }) => return Err(error.into()),
                // It became a lock, or was deleted.
                Ok(_) => continue,
                // No details, for example because the user may not run scripts.
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

fn look_at(
    client: &LockClient,
    server: &Server,
    name: &str,
    asking: bool,
) -> Result<Found, ServerError> {
    let mut probe = Probe::connect(client, server)?;
    for _ in 0..LOOKS {
        match probe.find(name.as_bytes(), asking)? {
            Found::Gone => {}
            found => return Ok(found),
        }
    }
    Ok(Found::Gone)
}

/// How many connections listen for releases of the lock: where it is at home, even while it is on
/// its way to another server. In a cluster with shard channels they listen to those.
fn listeners(client: &LockClient, home: &Server, name: &str, in_cluster: bool) -> Option<u64> {
    let mut probe = Probe::connect(client, home).ok()?;
    let channel = LockKeys::new(client, name).channel;
    let mut count = |command| probe.run(redis::cmd("PUBSUB").arg(command).arg(&channel));
    let sharded = in_cluster.then(|| count("SHARDNUMSUB")).transpose();
    let reply = match sharded {
        Ok(Some(reply)) => reply,
        _ => count("NUMSUB").ok()?,
    };
    let (_, listeners): (Value, u64) = probe.decode(reply).ok()?;
    Some(listeners)
}
