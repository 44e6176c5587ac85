//! `leasehold permits`: shows or sets the number of permits of a semaphore. Ends a single permit for
//! `leasehold break`.

use redis::Value;

use super::args::{PermitsArgs, RedisArgs};
use super::kinds::Kind;
use super::lookup::{FoundLock, deployments, find_locks};
use super::name::shown;
use super::outcome::{Failure, Result};
use super::probe::command;
use super::{connect, output};
use leasehold::LockClient;
use leasehold::admin::LockKeys;

pub(super) fn permits(redis: &RedisArgs, wanted: &PermitsArgs) -> Result<()> {
    let (name, key) = (&wanted.key, shown(&wanted.key));
    let clients = connect::clients(redis, None)?;
    let ([client], false) = (&clients[..], redis.redlock) else {
        return Err(Failure::usage(
            "permits does not work with --redlock: a semaphore is on one server",
        ));
    };
    let found = find_locks(redis, &clients, name)?;
    let kind = found.first().map(|found| &found.row.kind);
    if kind.is_some_and(Kind::is_lock) {
        return Err(Failure::usage(format!("{key} is a lock, not a semaphore")));
    }
    let semaphore = client.leased_semaphore(name);
    let before = semaphore.permits()?;
    if let Some(permits) = wanted.permits {
        semaphore.set_permits(permits)?;
    } else if kind.is_none() && before == 0 {
        let servers = deployments(&clients);
        return Err(Failure::not_held(format!(
            "there is no semaphore {key} at {servers}; leasehold permits {key} N makes it"
        )));
    }
    let (total, available) = (semaphore.permits()?, semaphore.available()?);
    let changed = wanted.permits.map(|_| format!(" (before: {before})"));
    let changed = changed.unwrap_or_default();
    let leased = total - available;
    let text = format!(
        "name       {key}\npermits    {total}{changed}\navailable  {available}\n\
         leased     {leased}\n"
    );
    output::print(text.as_bytes()).map(drop)
}

/// The id of a permit as text.
pub(super) fn id(permit: u128) -> String {
    format!("{permit:032x}")
}

/// Ends the lease of a permit, which is available then. False if it is not leased.
pub(super) fn end(
    client: &LockClient,
    redis: &RedisArgs,
    semaphore: &mut FoundLock<'_>,
    name: &str,
    permit: u128,
) -> Result<bool> {
    let keys = LockKeys::new(client, name);
    let id = permit.to_be_bytes();
    let end = command(("ZADD", keys.leases, "XX", "CH", 0, &id[..]));
    let is_ended = semaphore.probe.run(&end)? == Value::Int(1);
    if is_ended {
        // A client that waits counts the permit when it asks again. If no message can be sent, it
        // asks later.
        let mut publish = |name| {
            let publish = command((name, &keys.semaphore_channel, 1));
            semaphore.probe.run(&publish).is_ok()
        };
        let _is_sent = redis.cluster && publish("SPUBLISH") || publish("PUBLISH");
    }
    Ok(is_ended)
}
