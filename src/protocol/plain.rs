//! The plain lock: a hash of owner to hold count.

use redis::{RedisResult, Value};

use super::{AcquireReply, Protocol, Wish};
use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::script::{self, Call};

#[derive(Debug)]
pub(crate) struct Plain;

/// The part of an acquire that all hashes of owners share.
pub(super) fn acquire(
    keys: &[&LockKey],
    owner: &OwnerId,
    millis: u64,
    grants: fn(&Value) -> bool,
) -> Call {
    let call = Call::new(&script::ACQUIRE).acquiring(grants);
    keys.iter()
        .fold(call, |call, key| call.key(key.key()))
        .arg(owner.as_str())
        .arg(itoa::Buffer::new().format(millis))
}

impl Protocol for Plain {
    fn kind(&self) -> &'static str {
        "reentrant"
    }

    fn grants(&self) -> fn(&Value) -> bool {
        |reply| *reply == Value::Nil
    }

    fn acquire(&self, keys: &[&LockKey], owner: &OwnerId, millis: u64, _wish: &Wish) -> Call {
        acquire(keys, owner, millis, self.grants())
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
            Value::Array(vec![Value::Int(millis), Value::Int(number), owner])
        };
        for (reply, at, millis) in [(held(250, 3), 2, Some(250)), (held(-1, 1), 0, None)] {
            let owner = "a:1".into();
            let expected = AcquireReply::Held { at, millis, owner };
            assert_eq!(Plain.acquired(&reply).unwrap(), expected);
        }
        let granted = AcquireReply::Granted(0..0);
        assert_eq!(Plain.acquired(&Value::Nil).unwrap(), granted);
        let short = Value::Array(vec![Value::Int(7), Value::Int(1)]);
        for odd in [Value::Okay, short, held(7, 0)] {
            assert!(Plain.acquired(&odd).is_err(), "{odd:?}");
        }
    }
}
