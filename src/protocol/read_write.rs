//! The two locks of a read-write lock. They share a hash, a channel and the local queue.

use redis::{RedisResult, Value};

use super::{AcquireReply, Plain, Protocol, Wish, count_argument};
use crate::base::key::{Family, LockKey};
use crate::base::owner::OwnerId;
use crate::script::{self, Call};

/// The largest hold count that is written for a reader. The count is information, and when a
/// Redisson client unlocks, it sends one command for each hold of each reader.
const LARGEST_COUNT: u32 = 64;

/// The read lock: several owners hold it at the same time.
#[derive(Debug)]
pub(crate) struct Read;

/// The write lock.
#[derive(Debug)]
pub(crate) struct Write;

/// The fields of a writer with these names.
fn writer(owner: &OwnerId) -> String {
    let fields: Vec<String> = owner
        .as_str()
        .split(' ')
        .map(|name| format!("{name}:write"))
        .collect();
    fields.join(" ")
}

fn inspect(key: &LockKey, owner: &str) -> Call {
    Call::new(&script::READ_WRITE_INSPECT)
        .key(key.key())
        .arg(owner)
}

impl Protocol for Read {
    fn kind(&self) -> &'static str {
        "read"
    }

    fn names(&self, namespace: &str, name: &str, _client: &str) -> LockKey {
        LockKey::of(Family::ReadWriteLock, namespace, name)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_joinable(&self) -> bool {
        false
    }

    fn grants(&self) -> fn(&Value) -> bool {
        Plain.grants()
    }

    fn acquire(&self, keys: &[&LockKey], owner: &OwnerId, millis: u64, wish: &Wish) -> Call {
        let call = Call::new(&script::READ_ACQUIRE).acquiring(self.grants());
        let (place, waits) = wish.in_line();
        keys.iter()
            .fold(call, |call, key| call.key(key.key()))
            .arg(owner.as_str())
            .arg(millis.to_string())
            .arg(place)
            .arg(waits)
            .arg(wish.within.as_ref().map(writer).unwrap_or_default())
            // It releases nothing.
            .publishing_if(|_| false)
    }

    fn has_line(&self) -> bool {
        true
    }

    fn acquired(&self, reply: &Value) -> RedisResult<AcquireReply> {
        Plain.acquired(reply)
    }

    fn release(&self, key: &LockKey, owner: &OwnerId) -> Call {
        Call::new(&script::READ_WRITE_RELEASE)
            .key(key.key())
            .arg(owner.as_str())
            .arg(&**key.channel())
            .publishing()
    }

    fn renew(&self, key: &LockKey, owner: &OwnerId, millis: u64, count: Option<u32>) -> Call {
        Call::new(&script::READ_RENEW)
            .key(key.key())
            .arg(owner.as_str())
            .arg(millis.to_string())
            .arg(count_argument(count.map(|count| count.min(LARGEST_COUNT))))
    }

    fn inspect(&self, key: &LockKey) -> Call {
        inspect(key, self.kind())
    }
}

impl Protocol for Write {
    fn kind(&self) -> &'static str {
        "write"
    }

    fn names(&self, namespace: &str, name: &str, _client: &str) -> LockKey {
        LockKey::of(Family::ReadWriteLock, namespace, name)
    }

    fn is_joinable(&self) -> bool {
        false
    }

    fn grants(&self) -> fn(&Value) -> bool {
        Plain.grants()
    }

    fn acquire(&self, keys: &[&LockKey], owner: &OwnerId, millis: u64, wish: &Wish) -> Call {
        let call = Call::new(&script::WRITE_ACQUIRE).acquiring(self.grants());
        let (place, waits) = wish.in_line();
        keys.iter()
            .fold(call, |call, key| call.key(key.key()))
            .arg(writer(owner))
            .arg(millis.to_string())
            .arg(place)
            .arg(waits)
            // It releases nothing.
            .publishing_if(|_| false)
    }

    fn has_line(&self) -> bool {
        true
    }

    fn acquired(&self, reply: &Value) -> RedisResult<AcquireReply> {
        Plain.acquired(reply)
    }

    fn release(&self, key: &LockKey, owner: &OwnerId) -> Call {
        Call::new(&script::READ_WRITE_RELEASE)
            .key(key.key())
            .arg(writer(owner))
            .arg(&**key.channel())
            .publishing()
    }

    fn leave(&self, key: &LockKey, owner: &OwnerId, millis: u64, name: &OwnerId) -> Call {
        Call::new(&script::LEAVE)
            .key(key.key())
            .arg(writer(owner))
            .arg(millis.to_string())
            .arg(writer(name))
            .arg(&**key.channel())
            .publishing()
    }

    fn renew(&self, key: &LockKey, owner: &OwnerId, millis: u64, count: Option<u32>) -> Call {
        Call::new(&script::RENEW)
            .key(key.key())
            .arg(writer(owner))
            .arg(millis.to_string())
            .arg(count_argument(count))
    }

    fn inspect(&self, key: &LockKey) -> Call {
        inspect(key, self.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_has_a_field_for_each_of_its_names() {
        let owner = OwnerId::new("client");
        assert_eq!(writer(&owner), format!("{}:write", owner.as_str()));
        let both = owner.with_fresh_name();
        let (newest, _) = both.split();
        let expected = format!("{}:write {}:write", newest.as_str(), owner.as_str());
        assert_eq!(writer(&both), expected);
        assert_eq!(both.client(), "client");
    }
}
