//! The fair lock: a plain lock with a queue of clients in Redis.
//!
//! A client that waits has one place in the queue, whichever of its threads waits: the number that
//! follows its UUID is 0, and no grant has that number. When its turn comes, the threads that waited
//! when it took its place hold the lock one after another. So threads have equal shares, whichever
//! clients they belong to.
//!
//! A place lasts for a few seconds from each request, and longer in a long queue (`life_of_places`
//! in `lua/shared/fair_head.lua`). A waiting thread sends the next request after a third of that. A
//! client that dies loses its place before that, when it is the next one: the scripts see that it
//! does not listen any more.

use redis::{RedisResult, Value};

use super::{AcquireReply, Protocol, Wish};
use crate::base::key::{Family, LockKey};
use crate::base::owner::OwnerId;
use crate::script::{self, Call, Script};

#[derive(Debug)]
pub(crate) struct Fair;

/// The place of a client in the queues of all fair locks.
fn place(client: &str) -> String {
    format!("{client}:0")
}

/// The first part of the channels of all places. Redisson derives them in the same way.
fn channels(key: &LockKey) -> String {
    key.prefixed("redisson_lock__channel") + ":"
}

fn call(script: &'static std::sync::LazyLock<Script>, key: &LockKey) -> Call {
    Call::new(script)
        .key(key.key())
        .key(&key.prefixed("redisson_lock_queue"))
        .key(&key.prefixed("redisson_lock_timeout"))
}

impl Protocol for Fair {
    fn names(&self, namespace: &str, name: &str, client: &str) -> LockKey {
        let key = LockKey::of(Family::FairLock, namespace, name);
        key.with_channel(channels(&key) + &place(client))
    }

    fn kind(&self) -> &'static str {
        "fair"
    }

    fn grants(&self) -> fn(&Value) -> bool {
        |reply| matches!(reply, Value::Int(0..))
    }

    fn acquire(&self, keys: &[&LockKey], owner: &OwnerId, millis: u64, wish: &Wish) -> Call {
        // The call has one key, because this kind is not joinable.
        let call = call(&script::FAIR_ACQUIRE, keys[0]).acquiring(self.grants());
        call.arg(owner.as_str())
            .arg(millis.to_string())
            .arg(place(owner.client()))
            .arg(if wish.waits { "1" } else { "0" })
            .arg(channels(keys[0]))
            // It releases nothing.
            .publishing_if(|_| false)
    }

    fn owner(&self, client: &str) -> OwnerId {
        OwnerId::of_fair_lock(client)
    }

    fn acquired(&self, reply: &Value) -> RedisResult<AcquireReply> {
        match reply {
            Value::Int(0..) => Ok(AcquireReply::Granted(0..0)),
            other => AcquireReply::held(other),
        }
    }

    /// A grant that was waited for is for the threads that waited when the client took its place.
    fn turns(&self, reply: &Value, waiting: Option<usize>) -> Option<usize> {
        let others_wait = matches!(reply, Value::Int(1..));
        waiting.or(others_wait.then_some(1))
    }

    fn release(&self, key: &LockKey, owner: &OwnerId) -> Call {
        call(&script::FAIR_RELEASE, key)
            .arg(owner.as_str())
            .arg(channels(key))
            .publishing()
    }

    fn leave(&self, key: &LockKey, owner: &OwnerId, millis: u64, name: &OwnerId) -> Call {
        call(&script::FAIR_KEEP, key)
            .arg(owner.as_str())
            .arg(millis.to_string())
            .arg(name.as_str())
            .arg(channels(key))
            .publishing()
    }

    fn give_up(&self, key: &LockKey, client: &str, _: Option<&str>) -> Option<Call> {
        let call = call(&script::FAIR_LEAVE, key)
            .arg(place(client))
            .arg(channels(key));
        Some(call.publishing())
    }

    fn is_joinable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_decoded() {
        let granted = AcquireReply::Granted(0..0);
        for others in [0, 3] {
            let reply = Value::Int(others);
            assert_eq!(Fair.acquired(&reply).unwrap(), granted);
            assert!(Fair.grants()(&reply));
            assert_eq!(Fair.turns(&reply, None), (others > 0).then_some(1));
            assert_eq!(Fair.turns(&reply, Some(4)), Some(4));
        }
        assert!(Fair.acquired(&Value::Nil).is_err());
        assert!(!Fair.grants()(&Value::Nil));
    }

    #[test]
    fn a_client_listens_where_redisson_notifies_its_place() {
        let key = Fair.names("", "a", "uuid");
        assert_eq!(&**key.channel(), "redisson_lock__channel:{a}:uuid:0");
        assert_eq!(channels(&key), "redisson_lock__channel:{a}:");
    }
}
