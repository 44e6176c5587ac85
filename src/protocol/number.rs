//! Kinds without a holder, whose key is a number: the free permits of a semaphore, or the count of
//! a latch.
//!
//! A call that changes the number has a [`RequestId`]: Redis records its reply, and executes no
//! further copy of it. The key of the records is made by [`records`].

use redis::{RedisResult, Value};

use super::unexpected;
use crate::base::key::LockKey;
use crate::base::lanes::RequestId;
use crate::script::{self, Call, Script};

/// The key of a client's records about the number in `key`.
pub(crate) fn records(key: &LockKey, client: &str) -> String {
    key.suffixed(&format!("leasehold:{client}"))
}

/// A number, and the records of this client about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberKey<'a> {
    pub(crate) key: &'a LockKey,
    pub(crate) records: &'a str,
}

impl NumberKey<'_> {
    fn call(self, script: &'static Script) -> Call {
        Call::new(script).key(self.key.key()).key(self.records)
    }

    /// Reads the number.
    pub(crate) fn read(self) -> Call {
        Call::new(&script::READ_NUMBER).key(self.key.key())
    }

    /// Sets the number if there is none, and publishes `message`. Replies 1 if it is set.
    pub(crate) fn set(self, id: &RequestId<'_>, number: u64, message: &str) -> Call {
        identified(
            self.call(&script::SET_NUMBER)
                .arg(number.to_string())
                .arg(message),
            id,
        )
        .arg(&**self.key.channel())
        .publishing()
    }

    /// Takes `permits` if `left_over` more are free. Replies how many it took.
    pub(crate) fn take(self, id: &RequestId<'_>, permits: u32, left_over: u64) -> Call {
        let call = self
            .call(&script::TAKE_PERMITS)
            .arg(permits.to_string())
            .arg(left_over.to_string());
        identified(call, id).acquiring(|reply| matches!(reply, Value::Int(1..)))
    }

    /// Takes all free permits. Replies how many these were.
    pub(crate) fn drain(self, id: &RequestId<'_>) -> Call {
        identified(self.call(&script::DRAIN_PERMITS), id)
    }

    /// Adds permits. Replies how many are free then; nil if that would not be a 32-bit number.
    pub(crate) fn add(self, id: &RequestId<'_>, permits: i32) -> Call {
        let call = self.call(&script::ADD_PERMITS).arg(permits.to_string());
        identified(call, id).arg(&**self.key.channel()).publishing()
    }

    /// Undoes a request that takes permits, with the id of that request.
    pub(crate) fn give_back(self, id: &RequestId<'_>) -> Call {
        identified(self.call(&script::GIVE_BACK_PERMITS), id)
            .arg(&**self.key.channel())
            .publishing()
    }

    /// Decreases the count of a latch. Replies the count then.
    pub(crate) fn count_down(self, id: &RequestId<'_>) -> Call {
        identified(self.call(&script::COUNT_DOWN), id)
            .arg(&**self.key.channel())
            .publishing()
    }
}

fn identified(call: Call, id: &RequestId<'_>) -> Call {
    call.arg(id.lane().to_string()).arg(id.number().to_string())
}

/// A reply that is a number of this type.
pub(crate) fn number<T: TryFrom<i64>>(reply: &Value) -> RedisResult<T> {
    match reply {
        Value::Int(number) => T::try_from(*number).map_err(|_| unexpected(reply)),
        other => Err(unexpected(other)),
    }
}

/// A reply that is a number of this type or nil.
pub(crate) fn number_or_nil<T: TryFrom<i64>>(reply: &Value) -> RedisResult<Option<T>> {
    match reply {
        Value::Nil => Ok(None),
        reply => number(reply).map(Some),
    }
}
