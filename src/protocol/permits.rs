//! The permits of a semaphore, each with an id and a lease.
//!
//! A permit is a grant whose owner id is the id of the permit: 16 bytes in Redis, 32 hexadecimal
//! characters here.
//!
//! Each permit is either available or leased, whatever fails in a script. A permit whose lease has
//! ended is not renewed: a late renewal would keep it after the death of its holder.

use redis::{RedisResult, Value};

use super::{AcquireReply, Kind, PLAIN, rank_of, unexpected};
use crate::base::key::{Family, LockKey};
use crate::base::owner::OwnerId;
use crate::script::{self, Call};

/// If no lease ends, a thread asks again after this many milliseconds without a message, because
/// another program can change the number of permits without one.
const NO_LEASE_ENDS: u64 = 30_000;

pub(crate) static PERMITS: Kind = Kind {
    name: "leased_semaphore",
    family: Family::Semaphore,
    is_exclusive: false,
    is_joinable: false,
    to_acquire: &script::PERMIT_ACQUIRE,
    to_release: &script::PERMIT_RELEASE,
    to_renew: &script::PERMIT_RENEW,
    new_owner: |_client| OwnerId::of_permit(),
    keys,
    written: |ids| bytes(ids).into(),
    wish: |call, keys, _owner, wish| {
        let call = keys
            .iter()
            .fold(call, |call, key| call.arg(&**key.channel()));
        call.arg(wish.place.as_deref().unwrap_or_default())
            .flag(wish.waits)
    },
    largest_count: None,
    refused,
    has_no_owner: |reply| part(reply, 0) == Some(&Value::Int(-2)),
    listens: |reply| part(reply, 2) == Some(&Value::Int(1)),
    ..PLAIN
};

/// The ids as they are in Redis, one after another.
fn bytes(ids: &OwnerId) -> Vec<u8> {
    let ids = ids.as_str().split(' ');
    let ids = ids.filter_map(|id| u128::from_str_radix(id, 16).ok());
    ids.flat_map(u128::to_be_bytes).collect()
}

fn keys(call: Call, key: &LockKey) -> Call {
    call.key(key.key()).key(&key.leases())
}

/// A part of a refusal; `None` if there is no such part.
fn part(reply: &Value, at: usize) -> Option<&Value> {
    match reply {
        Value::Array(parts) => parts.get(at),
        _ => None,
    }
}

/// Decodes a refusal: the milliseconds until a lease ends, and the place in the line.
fn refused(reply: &Value) -> RedisResult<AcquireReply> {
    if let Value::Array(parts) = reply
        && let [Value::Int(millis), place @ ..] = &parts[..]
    {
        return Ok(AcquireReply::Held {
            at: 0,
            millis: Some(u64::try_from(*millis).unwrap_or(NO_LEASE_ENDS)),
            owner: String::new(),
            rank: rank_of(place),
        });
    }
    Err(unexpected(reply))
}

/// How the number of permits changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitsChange {
    /// Sets it, unless the semaphore exists.
    Init(i64),
    /// Sets it, including the permits that are leased.
    Set(i64),
    Add(i64),
}

/// Changes the number of permits.
pub(crate) fn change_permits(key: &LockKey, change: PermitsChange) -> Call {
    let (action, number) = match change {
        PermitsChange::Init(number) => ("init", number),
        PermitsChange::Set(number) => ("set", number),
        PermitsChange::Add(number) => ("add", number),
    };
    let call = keys(Call::new(&script::PERMIT_TOTAL), key)
        .arg(action)
        .arg(number.to_string())
        .arg(&**key.channel())
        .publishing();
    match change {
        PermitsChange::Set(_) => call,
        // The second copy of `Add` would change the number again, and that of `Init` could not
        // tell who has set it.
        PermitsChange::Init(_) | PermitsChange::Add(_) => call.not_repeatable(),
    }
}

/// True if the number was changed.
pub(crate) fn permits_changed(reply: &Value) -> RedisResult<bool> {
    match reply {
        Value::Int(done @ 0..=1) => Ok(*done == 1),
        other => Err(unexpected(other)),
    }
}

/// Counts the permits.
pub(crate) fn count_permits(key: &LockKey) -> Call {
    keys(Call::new(&script::PERMIT_COUNT), key)
}

/// The number of available permits, and of leased ones.
pub(crate) fn permits_counted(reply: &Value) -> RedisResult<(i64, i64)> {
    Ok(redis::from_redis_value_ref(reply)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_decoded() {
        let refused = |parts: &[i64]| Value::Array(parts.iter().copied().map(Value::Int).collect());
        let granted = AcquireReply::Granted(0..0);
        assert_eq!(PERMITS.acquired(&Value::Nil).unwrap(), granted);
        for (reply, millis, rank) in [
            (&[250][..], 250, None),
            (&[0, 7, 0], 0, Some(7)),
            (&[-1, 0, 1], 30_000, Some(0)),
            (&[-2], 30_000, None),
        ] {
            let (owner, millis) = (String::new(), Some(millis));
            let reply = refused(reply);
            assert_eq!((PERMITS.has_no_owner)(&reply), reply == refused(&[-2]));
            assert_eq!((PERMITS.listens)(&reply), rank == Some(0));
            let expected = AcquireReply::Held {
                at: 0,
                millis,
                owner,
                rank,
            };
            assert_eq!(PERMITS.acquired(&reply).unwrap(), expected);
        }
        for odd in [Value::Okay, Value::Int(1), refused(&[])] {
            assert!(PERMITS.acquired(&odd).is_err(), "{odd:?}");
            assert!(permits_counted(&odd).is_err(), "{odd:?}");
        }
        assert!(!permits_changed(&Value::Int(0)).unwrap());
        assert!(permits_changed(&Value::Int(2)).is_err());
    }
}
