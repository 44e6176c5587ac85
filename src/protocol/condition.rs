//! The condition of a lock: a queue of waiters in Redis. Redisson has no conditions, so the format
//! is that of this crate.
//!
//! # States of a waiter in Redis
//!
//! | state | in the queue | has a place | who ends it |
//! |---|---|---|---|
//! | waits | yes | yes | a notification; the waiter, which gives up |
//! | notified by `notify_one` | no | yes | the waiter, when it has the lock again |
//! | none: notified by `notify_all`, dead, or its keys are gone | no | no | |
//!
//! # Rules
//!
//! 1. A thread that holds the lock puts its waiter into the queue, and then releases the lock. Only
//!    a thread that holds the lock notifies, so no notification falls between the two steps.
//! 2. A place lasts for a few seconds, and is renewed while its thread waits for a notification or
//!    for the lock. The server's clock decides. Every script removes the places that have ended.
//!    If one of them had a notification of `notify_one`, the first waiter of the queue gets it.
//! 3. A thread waits as long as Redis has its waiter in the queue. Every other state ends its wait:
//!    it acquires the lock again, and then ends its place. So a loss of the keys is a spurious
//!    wake-up, and no thread waits for a notification that cannot arrive.
//! 4. A place is ended when its thread has the lock again, and the reply says whether the waiter
//!    was notified until then. If it was, the wait reports a notification, even if its time was
//!    over. If the thread cannot acquire the lock, the next waiter gets the notification.
//! 5. A message tells a client the numbers of its waiters that need not wait any more. Without the
//!    message, the next renewal of a place tells it.
//!
//! # Requests that are executed twice, or late
//!
//! * wait: requires the owner id of the grant, and changes nothing if the waiter has a place. After
//!   the wait, each copy without a reply is followed by a request that ends the place. One case
//!   remains: a copy is executed after `notify_all` has removed the place, while another thread of
//!   the client holds the lock by the same grant, and before the waiter has it. Then the waiter has
//!   a place again, and its end takes a notification of `notify_one` that reaches this place.
//! * renew: makes no place.
//! * notify: requires the owner id of the grant. A second copy notifies one waiter more, which is a
//!   spurious wake-up.
//! * end: a waiter waits once. If the reply to the first copy is lost, the wait reports a
//!   notification, which may be a spurious wake-up. Without any reply, the place is ended in the
//!   background. Unless the waiter was notified before, the next waiter then gets the notification
//!   that it may have by now. One case remains: if all copies without a reply are executed so late,
//!   they take it.

use std::time::Duration;

use redis::{RedisResult, Value};

use super::unexpected;
use crate::base::key::check_name;
use crate::base::{LockKey, OwnerId};
use crate::error::Result;
use crate::script::{self, Call};

/// The names of a condition in Redis.
#[derive(Debug)]
pub(crate) struct ConditionKeys {
    lock: LockKey,
    /// A sorted set of the waiters that are not notified, by their order.
    queue: String,
    /// A sorted set of all waiters, by the times at which their places end.
    places: String,
}

/// Which waiters a call notifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    One,
    All,
}

/// What becomes of the notification of a waiter whose place ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// The waiter takes it.
    Take,
    /// The next waiter gets it.
    Pass,
}

/// What a waiter was when its place ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedPlace {
    NotNotified,
    Notified,
    /// It had no place.
    Gone,
}

impl ConditionKeys {
    /// Fails if the name is empty or too long.
    pub(crate) fn new(lock: &LockKey, name: &str) -> Result<Self> {
        check_name(name).map_err(|error| error.concerning(lock.name()))?;
        let named = |prefix: &str| lock.suffixed(&format!("{prefix}:{name}"));
        Ok(Self {
            lock: lock.clone(),
            queue: named("condition"),
            places: named("condition_places"),
        })
    }

    /// The lock, with the channel on which a client hears which of its waiters need not wait any
    /// more. It is one channel for all conditions of the lock.
    pub(crate) fn heard_by(&self, client: &str) -> LockKey {
        let channel = format!("{}:{client}", self.lock.channel());
        self.lock.with_channel(channel)
    }

    /// Puts `waiter` into the queue, if `owner` holds the lock.
    pub(crate) fn wait(&self, owner: &OwnerId, waiter: &OwnerId, place: Duration) -> Call {
        let call = Call::new(&script::CONDITION_WAIT).key(self.lock.key());
        self.keys(call)
            .arg(owner.as_str())
            .arg(waiter.as_str())
            .arg(place.as_millis().to_string())
            .arg(&**self.lock.channel())
    }

    /// Renews the place of `waiter`. If it `waits` for a notification, the reply tells whether it
    /// still has to.
    pub(crate) fn renew(&self, waiter: &OwnerId, place: Duration, waits: bool) -> Call {
        self.keys(Call::new(&script::CONDITION_RENEW))
            .arg(waiter.as_str())
            .arg(place.as_millis().to_string())
            .flag(waits)
            .arg(&**self.lock.channel())
    }

    /// Notifies waiters, if `owner` holds the lock.
    pub(crate) fn notify(&self, owner: &OwnerId, notified: Notified) -> Call {
        let call = Call::new(&script::CONDITION_NOTIFY).key(self.lock.key());
        self.keys(call)
            .arg(owner.as_str())
            .flag(notified == Notified::All)
            .arg(&**self.lock.channel())
    }

    /// Ends the place of `waiter`.
    pub(crate) fn end(&self, waiter: &OwnerId, intent: Intent) -> Call {
        self.keys(Call::new(&script::CONDITION_END))
            .arg(waiter.as_str())
            .flag(intent == Intent::Pass)
            .arg(&**self.lock.channel())
    }

    fn keys(&self, call: Call) -> Call {
        call.key(&self.queue).key(&self.places)
    }
}

/// Decodes the reply to [`end`](ConditionKeys::end).
pub(crate) fn ended(reply: &Value) -> RedisResult<EndedPlace> {
    match reply {
        Value::Int(0) => Ok(EndedPlace::Gone),
        Value::Int(1) => Ok(EndedPlace::NotNotified),
        Value::Int(2) => Ok(EndedPlace::Notified),
        other => Err(unexpected(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_and_the_channel_have_the_braces_of_the_lock() {
        for (lock, queue, channel) in [
            ("a", "{a}:condition:c", "redisson_lock__channel:{a}:client"),
            (
                "{a}:b",
                "{a}:b:condition:c",
                "redisson_lock__channel:{a}:b:client",
            ),
        ] {
            let lock = LockKey::new("", lock);
            let keys = ConditionKeys::new(&lock, "c").unwrap();
            assert_eq!(keys.queue, queue);
            let heard = keys.heard_by("client");
            assert_eq!(&**heard.channel(), channel);
            assert_eq!((heard.slot(), heard.key()), (lock.slot(), lock.key()));
            heard.check_one_slot().unwrap();
        }
    }

    #[test]
    fn no_call_counts_as_a_release_of_the_lock() {
        let keys = ConditionKeys::new(&LockKey::new("", "a"), "c").unwrap();
        let id = OwnerId::new("client");
        for call in [
            keys.wait(&id, &id, Duration::ZERO),
            keys.renew(&id, Duration::ZERO, true),
            keys.notify(&id, Notified::All),
            keys.end(&id, Intent::Pass),
        ] {
            for reply in [Value::Int(1), Value::Array(vec![Value::Int(1)])] {
                assert!(!call.has_released(&reply), "{call:?}");
            }
        }
    }

    #[test]
    fn a_name_is_one_to_512_bytes() {
        let lock = LockKey::new("", "a");
        assert!(ConditionKeys::new(&lock, "").is_err());
        assert!(ConditionKeys::new(&lock, &"x".repeat(513)).is_err());
        assert!(ConditionKeys::new(&lock, &"}{".repeat(256)).is_ok());
    }

    #[test]
    fn replies_to_the_end_of_a_place_are_decoded() {
        for (reply, expected) in [
            (0, EndedPlace::Gone),
            (1, EndedPlace::NotNotified),
            (2, EndedPlace::Notified),
        ] {
            assert_eq!(ended(&Value::Int(reply)).unwrap(), expected);
        }
        for odd in [Value::Nil, Value::Int(3), Value::Array(vec![])] {
            assert!(ended(&odd).is_err(), "{odd:?}");
        }
    }
}
