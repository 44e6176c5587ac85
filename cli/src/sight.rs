//! One lock: who holds it, and who listens for its release.

use std::sync::Arc;

use redis::{RedisResult, Value, from_redis_value};

use super::outcome::{Failure, Result, UNAVAILABLE, advised};
use super::probe::{Found, find};
use super::row::{Row, shown};
use crate::base::key::LockKey;
use crate::client::LockClient;
use crate::error::Error;
use crate::request::RedisClient;
use crate::topology::Redirect;
use crate::transport::server::Server;

/// How often a lock is looked at that is given back between two questions.
const LOOKS: usize = 10;

/// Servers of a cluster that are asked one after the other: one sends on to the next.
const SERVERS: usize = 5;

/// Who holds one lock, and who listens for its release.
#[derive(Debug)]
pub(super) struct Sight {
    /// That of the client which found it, among those that were asked.
    pub(super) place: usize,
    pub(super) row: Row,
    /// `None`: Redis does not tell this user.
    pub(super) listeners: Option<u64>,
}

/// The lock of this name, at the server of `client` that has it; `None` if nobody holds it.
pub(super) fn look(place: usize, client: &LockClient, name: &str) -> Result<Option<Sight>> {
    let key = LockKey::new("", name);
    key.check()?;
    let connections = &client.core.redis;
    let mut home = connections.home(&key)?;
    let mut to = Redirect {
        server: Arc::clone(&home),
        asking: false,
    };
    for _ in 0..SERVERS {
        let error = match look_at(connections, &to, name) {
            Ok(Found::Lock(row)) => {
                let listeners = listeners(connections, &home, &key);
                return Ok(Some(Sight {
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
                        node: to.server.name().as_ref().into(),
                        found: format!("a value that is not a lock in the key {name:?}"),
                    }));
                }
            },
            Err(error) => error,
        };
        match connections.redirect(&key, &to.server, &error) {
            Some(next) => to = next,
            None => {
                let (complaint, hint) = connections.complaint(&to.server, &error);
                let complaint = advised(complaint, hint.as_deref());
                return Err(Failure::new(UNAVAILABLE, complaint));
            }
        }
        if !to.asking {
            home = Arc::clone(&to.server);
        }
    }
    Err(Failure::new(
        UNAVAILABLE,
        "the servers of the cluster refer to one another",
    ))
}

fn look_at(connections: &RedisClient, to: &Redirect, name: &str) -> RedisResult<Found> {
    let mut talk = connections.talk(&to.server)?;
    for _ in 0..LOOKS {
        match find(&mut talk, to.server.name(), name.as_bytes(), to.asking)? {
            Found::Gone => {}
            found => return Ok(found),
        }
    }
    Ok(Found::Gone)
}

/// How many connections listen for releases of the lock: where it is at home, even while it is on its way
/// to another server.
fn listeners(connections: &RedisClient, home: &Server, lock: &LockKey) -> Option<u64> {
    let mut talk = connections.talk(home).ok()?;
    let sharded = talk.is_sharded();
    let count = if sharded { "SHARDNUMSUB" } else { "NUMSUB" };
    let reply = talk.ask(redis::cmd("PUBSUB").arg(count).arg(&**lock.channel()));
    let (_, listeners): (Value, u64) = from_redis_value(reply.ok()?).ok()?;
    Some(listeners)
}
