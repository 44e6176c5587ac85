//! The permits of a semaphore, each with an id and a lease.
//!
//! Permits that are acquired together are a grant. Its owner id is the ids of the permits: 16 bytes
//! each in Redis, 32 hexadecimal characters here.
//!
//! Each permit is either available or leased, whatever fails in a script. A permit whose lease has
//! ended is not renewed: a late renewal would keep it after the death of its holder.

use redis::{RedisResult, Value};

use super::{Kind, PLAIN, decoded, number};
use crate::base::{Family, LockKey, OwnerId};
use crate::script::{self, Call};

pub(crate) static PERMITS: Kind = Kind {
    name: "leased_semaphore",
    family: Family::Semaphore,
    has_ticket: false,
    is_joinable: false,
    to_acquire: &script::PERMIT_ACQUIRE,
    to_release: &script::PERMIT_RELEASE,
    to_renew: &script::PERMIT_RENEW,
    to_adopt: &script::PERMIT_ADOPT,
    new_owner: |_client| OwnerId::of_permits(1),
    keys,
    written: |ids| bytes(ids).into(),
    options: |call, keys, owner, options| {
        let call = keys
            .iter()
            .fold(call, |call, key| call.arg(&**key.channel()));
        let total = options.total.map(|total| total.to_string());
        call.arg(options.place.as_deref().unwrap_or_default())
            .flag(options.waits)
            .arg(itoa::Buffer::new().format(owner.permits()))
            .arg(total.unwrap_or_default())
    },
    largest_count: None,
    ..PLAIN
};

/// The ids as they are in Redis, one after another.
fn bytes(ids: &OwnerId) -> Vec<u8> {
    let ids = ids.permit_ids();
    let ids = ids.filter_map(|id| u128::from_str_radix(id, 16).ok());
    ids.flat_map(u128::to_be_bytes).collect()
}

fn keys(call: Call, key: &LockKey) -> Call {
    call.key(key.key()).key(&key.leases_key())
}

/// How the number of permits changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitsChange {
    /// Sets the number of permits, unless the semaphore exists.
    Init(i64),
    /// Sets the number of all permits, available and leased.
    Set(i64),
    /// Adds this number of permits, which may be negative.
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
        .releasing();
    match change {
        PermitsChange::Set(_) => call,
        // The second copy of `Add` would change the number again, and that of `Init` could not
        // tell who has set it.
        PermitsChange::Init(_) | PermitsChange::Add(_) => call.not_repeatable(),
    }
}

/// True if the number was changed.
pub(crate) fn permits_changed(reply: &Value) -> RedisResult<bool> {
    Ok(number::<u8>(reply)? == 1)
}

/// Counts the permits.
pub(crate) fn count_permits(key: &LockKey) -> Call {
    keys(Call::new(&script::PERMIT_COUNT), key)
}

/// The number of available permits, and of leased ones.
pub(crate) fn permits_counted(reply: &Value) -> RedisResult<(i64, i64)> {
    decoded(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_decoded() {
        assert!(permits_counted(&Value::Okay).is_err());
        assert!(!permits_changed(&Value::Int(0)).unwrap());
        assert!(permits_changed(&Value::Int(1)).unwrap());
        assert!(permits_changed(&Value::Int(300)).is_err());
    }
}
