//! The fair lock: a plain lock with a queue of clients in Redis.
//!
//! A client that waits has one place in the queue, whichever of its threads waits: the number that
//! follows its UUID is 0, and no grant has that number. When its turn comes, the threads that
//! waited when it took its place hold the lock one after another. So threads have equal shares,
//! whichever clients they belong to.
//!
//! A place lasts for a few seconds from each request, and longer in a long queue (`life_of_places`
//! in `lua/shared/fair_head.lua`). A waiting thread sends the next request after a third of that. A
//! client that dies loses its place before that, when it is the next one: the scripts see that it
//! does not listen any more.

use redis::Value;

use super::{Kind, PLAIN};
use crate::base::{Family, LockKey, OwnerId};
use crate::script::{self, Call};

pub(crate) static FAIR: Kind = Kind {
    name: "fair",
    family: Family::FairLock,
    is_joinable: false,
    has_line: false,
    to_acquire: &script::FAIR_ACQUIRE,
    to_release: &script::FAIR_RELEASE,
    to_leave: &script::FAIR_KEEP,
    names: |key, client| key.with_channel(channels(&key) + &place(client)),
    new_owner: OwnerId::of_fair_lock,
    keys,
    channel: |key| channels(key).into(),
    options: |call, keys, owner, options| {
        let call = call.arg(place(owner.client())).flag(options.waits);
        keys.iter().fold(call, |call, key| call.arg(channels(key)))
    },
    give_up: |key, client, _place| {
        let call = keys(Call::new(&script::FAIR_LEAVE), key);
        Some(call.arg(place(client)).arg(channels(key)).releasing())
    },
    // A grant that was waited for is for the threads that waited when the client took its place.
    turns: |reply, waiting| {
        let others_wait = matches!(reply, Value::Int(2..));
        waiting.or(others_wait.then_some(1))
    },
    ..PLAIN
};

/// The place of a client in the queues of all fair locks.
fn place(client: &str) -> String {
    format!("{client}:0")
}

/// The first part of the channels of all places. Redisson derives them in the same way.
fn channels(key: &LockKey) -> String {
    key.prefixed("redisson_lock__channel") + ":"
}

fn keys(call: Call, key: &LockKey) -> Call {
    let [queue, ends] = queue_keys(key);
    call.key(key.key()).key(&queue).key(&ends)
}

/// The keys of the queue, and of the ends of its places.
pub(super) fn queue_keys(key: &LockKey) -> [String; 2] {
    ["redisson_lock_queue", "redisson_lock_timeout"].map(|prefix| key.prefixed(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_limited_if_other_clients_wait() {
        for others in [0, 3] {
            let reply = Value::Int(1 + others);
            assert_eq!((FAIR.turns)(&reply, None), (others > 0).then_some(1));
            assert_eq!((FAIR.turns)(&reply, Some(4)), Some(4));
        }
    }

    #[test]
    fn a_client_listens_where_redisson_notifies_its_place() {
        let key = FAIR.names("", "a", "uuid");
        assert_eq!(&**key.channel(), "redisson_lock__channel:{a}:uuid:0");
        assert_eq!(channels(&key), "redisson_lock__channel:{a}:");
    }
}
