//! The plain lock: a hash of owner to hold count.

use redis::{RedisResult, Value};

use super::{AcquireReply, Protocol, Wish};
use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::script::{self, Call};

#[derive(Debug)]
pub(crate) struct Plain;

/// An acquire of these locks, or of one lock with at most `tokens` tokens.
pub(super) fn acquire(
    keys: &[&LockKey],
    (owner, millis): (&OwnerId, u64),
    wish: &Wish,
    tokens: Option<u64>,
    grants: fn(&Value) -> bool,
) -> Call {
    let call = Call::new(&script::ACQUIRE).acquiring(grants);
    let call = keys.iter().fold(call, |call, key| call.key(key.key()));
    let call = match (tokens, keys) {
        (Some(_), [key, ..]) => call.key(&key.last_token()),
        _ => call,
    };
    let (place, waits) = wish.in_line();
    call.arg(owner.as_str())
        .arg(itoa::Buffer::new().format(millis))
        .arg(place)
        .arg(waits)
        .arg(tokens.map(|tokens| tokens.to_string()).unwrap_or_default())
        // It releases nothing.
        .publishing_if(|_| false)
}

impl Protocol for Plain {
    fn kind(&self) -> &'static str {
        "reentrant"
    }

    fn grants(&self) -> fn(&Value) -> bool {
        |reply| *reply == Value::Nil
    }

    fn acquire(&self, keys: &[&LockKey], owner: &OwnerId, millis: u64, wish: &Wish) -> Call {
        acquire(keys, (owner, millis), wish, None, self.grants())
    }

    fn has_line(&self) -> bool {
        true
    }

    fn acquired(&self, reply: &Value) -> RedisResult<AcquireReply> {
        match reply {
            Value::Nil => Ok(AcquireReply::Granted(0..0)),
            other => AcquireReply::held(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_decoded() {
        let held = |millis, number| {
            let owner = Value::BulkString("a:1".into());
            vec![Value::Int(millis), Value::Int(number), owner]
        };
        let in_line = [held(250, 3), vec![Value::Int(7)]].concat();
        for (reply, at, millis, rank) in [
            (held(250, 3), 2, Some(250), None),
            (in_line, 2, Some(250), Some(7)),
            (held(-1, 1), 0, None, None),
        ] {
            let (reply, owner) = (Value::Array(reply), "a:1".into());
            let expected = AcquireReply::Held {
                at,
                millis,
                owner,
                rank,
            };
            assert_eq!(Plain.acquired(&reply).unwrap(), expected);
        }
        let granted = AcquireReply::Granted(0..0);
        assert_eq!(Plain.acquired(&Value::Nil).unwrap(), granted);
        let short = Value::Array(vec![Value::Int(7), Value::Int(1)]);
        for odd in [Value::Okay, short, Value::Array(held(7, 0))] {
            assert!(Plain.acquired(&odd).is_err(), "{odd:?}");
        }
    }
}
