//! Kinds without a holder, whose key is a number: the free permits of a semaphore, or the count of
//! a latch.
//!
//! A call that changes the number is a [`RequestCopy`]: Redis executes at most one copy of a request.
//! The key of the records with which it does so is made by [`records`].

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

/// One copy of a request that Redis executes at most once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestCopy<'a> {
    pub(crate) id: &'a RequestId<'a>,
    /// An earlier copy is lost. Then Redis records the reply even if it changes nothing, so the lost
    /// copy changes nothing, either, when it arrives late.
    pub(crate) is_repeated: bool,
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
    pub(crate) fn set(self, copy: RequestCopy<'_>, number: u64, message: &str) -> Call {
        let call = self
            .call(&script::SET_NUMBER)
            .arg(number.to_string())
            .arg(message);
        once(call, copy).arg(&**self.key.channel()).publishing()
    }

    /// Takes `permits` if `left_over` more are free. Replies how many it took.
    pub(crate) fn take(self, copy: RequestCopy<'_>, permits: u32, left_over: u64) -> Call {
        let call = self
            .call(&script::TAKE_PERMITS)
            .arg(permits.to_string())
            .arg(left_over.to_string());
        once(call, copy).acquiring(|reply| matches!(reply, Value::Int(1..)))
    }

    /// Takes all free permits. Replies how many these were.
    pub(crate) fn drain(self, copy: RequestCopy<'_>) -> Call {
        once(self.call(&script::DRAIN_PERMITS), copy)
    }

    /// Adds permits. Replies how many are free then. If that is not a 32-bit number, nothing is
    /// changed.
    pub(crate) fn add(self, copy: RequestCopy<'_>, permits: i32) -> Call {
        let call = self.call(&script::ADD_PERMITS).arg(permits.to_string());
        once(call, copy).arg(&**self.key.channel()).publishing()
    }

    /// Undoes a request that takes permits, with the id of that request.
    pub(crate) fn give_back(self, id: &RequestId<'_>) -> Call {
        identified(self.call(&script::GIVE_BACK_PERMITS), id)
            .arg(&**self.key.channel())
            .publishing()
    }

    /// Cancels a request with this id, if it was not executed.
    pub(crate) fn cancel(self, id: &RequestId<'_>) -> Call {
        identified(Call::new(&script::CANCEL_REQUEST).key(self.records), id)
    }

    /// Decreases the count of a latch. Replies the count then.
    pub(crate) fn count_down(self, copy: RequestCopy<'_>) -> Call {
        once(self.call(&script::COUNT_DOWN), copy)
            .arg(&**self.key.channel())
            .publishing()
    }
}

fn identified(call: Call, id: &RequestId<'_>) -> Call {
    call.arg(id.lane().to_string()).arg(id.number().to_string())
}

fn once(call: Call, copy: RequestCopy<'_>) -> Call {
    identified(call, copy.id).arg(if copy.is_repeated { "1" } else { "0" })
}

/// A reply that is a number of this type.
pub(crate) fn number<T: TryFrom<i64>>(reply: &Value) -> RedisResult<T> {
    match reply {
        Value::Int(number) => T::try_from(*number).map_err(|_| unexpected(reply)),
        other => Err(unexpected(other)),
    }
}
