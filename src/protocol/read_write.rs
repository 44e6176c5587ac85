//! The two locks of a read-write lock. They share a hash, a channel and the local queue.

use std::time::Duration;

use redis::{RedisResult, Value};

use super::{AcquireReply, Plain, Protocol, Wish, count_argument};
use crate::base::key::{Family, LockKey};
use crate::base::owner::OwnerId;
use crate::script::{self, Call};

/// For how long a waiting writer keeps other clients from beginning to read, after each of its
/// requests. It repeats its request after half of this.
const WISH: Duration = Duration::from_secs(5);

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

/// The call after which Redis does not know that these requests wait, in the note of this name.
fn give_up(key: &LockKey, note: &str, requests: &str) -> Call {
    Call::new(&script::READ_WRITE_GIVE_UP)
        .key(key.key())
        .arg(note)
        .arg(requests)
        .arg(&**key.channel())
        .publishing()
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
        keys.iter()
            .fold(call, |call, key| call.key(key.key()))
            .arg(owner.as_str())
            .arg(millis.to_string())
            .arg(owner.client())
            .arg(if wish.waits { "1" } else { "0" })
            .arg(wish.within.as_ref().map(writer).unwrap_or_default())
    }

    fn acquired(&self, reply: &Value) -> RedisResult<AcquireReply> {
        Plain.acquired(reply)
    }

    fn give_up(&self, key: &LockKey, owner: &OwnerId, _: Option<&str>) -> Option<Call> {
        Some(give_up(key, owner.client(), owner.as_str()))
    }

    fn release(&self, key: &LockKey, owner: &OwnerId) -> Call {
        Call::new(&script::READ_RELEASE)
            .key(key.key())
            .arg(owner.as_str())
            .arg(&**key.channel())
            .publishing()
    }

    fn leave(&self, key: &LockKey, owner: &OwnerId, millis: u64, name: &OwnerId) -> Call {
        Call::new(&script::READ_LEAVE)
            .key(key.key())
            .arg(owner.as_str())
            .arg(millis.to_string())
            .arg(name.as_str())
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
        let wish = if wish.waits { WISH } else { Duration::ZERO };
        keys.iter()
            .fold(call, |call, key| call.key(key.key()))
            .arg(writer(owner))
            .arg(millis.to_string())
            .arg(owner.client())
            .arg(wish.as_millis().to_string())
    }

    fn acquired(&self, reply: &Value) -> RedisResult<AcquireReply> {
        Plain.acquired(reply)
    }

    fn give_up(&self, key: &LockKey, owner: &OwnerId, _: Option<&str>) -> Option<Call> {
        Some(give_up(key, "writer", &writer(owner)))
    }

    fn release(&self, key: &LockKey, owner: &OwnerId) -> Call {
        Call::new(&script::WRITE_RELEASE)
            .key(key.key())
            .arg(writer(owner))
            .arg(&**key.channel())
            .publishing()
    }

    fn leave(&self, key: &LockKey, owner: &OwnerId, millis: u64, name: &OwnerId) -> Call {
        Call::new(&script::WRITE_LEAVE)
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
