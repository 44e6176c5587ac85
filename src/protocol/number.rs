//! Kinds without a holder, whose key is a number: the free permits of a semaphore, or the count of
//! a latch.
//!
//! A call that changes the number is a [`RequestCopy`]: Redis executes at most one copy of a
//! request. The key of the records with which it does so is made by [`records`].

use redis::{RedisResult, Value};

use super::{AcquireOptions, unexpected};
use crate::base::LockKey;
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
    /// An earlier copy is lost. Then Redis records the reply even if it changes nothing, so the
    /// lost copy changes nothing, either, when it arrives late.
    pub(crate) is_repeated: bool,
}

/// How a number changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Sets the free permits of a semaphore if there is no number. Replies 1 if they are set.
    SetPermits(u32),
    /// Sets the count of a latch if there is none. Replies 1 if it is set, which opens no latch.
    SetCount(u64),
    /// Adds permits. Replies how many are free then. If that is not a 32-bit number, nothing is
    /// changed.
    Add(i32),
    /// Takes all free permits. Replies how many these were.
    Drain,
    /// Decreases the count of a latch. Replies the count then; zero opens the latch.
    CountDown,
}

/// The reply to [`Change::Add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitsSum {
    pub(crate) permits: i64,
    /// The script has called clients in the line of the semaphore.
    pub(crate) has_called: bool,
}

impl From<i64> for PermitsSum {
    /// A sum has 32 bits. The script adds this to it if it has called clients.
    fn from(reply: i64) -> Self {
        const CALLED: i64 = 1 << 40;
        let has_called = reply > CALLED / 2;
        let permits = if has_called { reply - CALLED } else { reply };
        Self {
            permits,
            has_called,
        }
    }
}

impl NumberKey<'_> {
    fn call(self, script: &'static Script, id: &RequestId<'_>) -> Call {
        let call = Call::new(script).key(self.key.key()).key(self.records);
        call.arg(id.lane.to_string()).arg(id.number.to_string())
    }

    /// Reads the number.
    pub(crate) fn read(self) -> Call {
        Call::new(&script::READ_NUMBER).key(self.key.key())
    }

    /// Changes the number.
    pub(crate) fn change(self, copy: RequestCopy<'_>, change: Change) -> Call {
        let (action, number) = match change {
            Change::SetPermits(permits) => ("set", permits.to_string()),
            Change::SetCount(count) => ("set_count", count.to_string()),
            Change::Add(permits) => ("add", permits.to_string()),
            Change::Drain => ("drain", String::new()),
            Change::CountDown => ("count_down", String::new()),
        };
        let call = self
            .call(&script::CHANGE_NUMBER, copy.id)
            .flag(copy.is_repeated)
            .arg(action)
            .arg(number)
            .arg(&**self.key.channel());
        match change {
            Change::SetPermits(_) | Change::Add(_) => call.releasing(),
            Change::CountDown => call.releasing_if(|reply| *reply == Value::Int(0)),
            Change::SetCount(_) | Change::Drain => call,
        }
    }

    /// Takes `permits`. [`acquired`](super::acquired) decodes the reply.
    pub(crate) fn take(
        self,
        copy: RequestCopy<'_>,
        permits: u32,
        options: &AcquireOptions,
    ) -> Call {
        self.call(&script::TAKE_PERMITS, copy.id)
            .flag(copy.is_repeated)
            .arg(permits.to_string())
            .arg(options.place.as_deref().unwrap_or_default())
            .flag(options.waits)
            .acquiring()
    }

    /// Cancels a request with this id, if it was not executed. Otherwise gives back the permits
    /// that it took, if `gives_back` is true.
    pub(crate) fn undo(self, id: &RequestId<'_>, gives_back: bool) -> Call {
        let call = self.call(&script::UNDO_REQUEST, id).flag(gives_back);
        let call = call.arg(&**self.key.channel());
        if gives_back { call.releasing() } else { call }
    }
}

/// A reply that is a number of this type.
pub(crate) fn number<T: TryFrom<i64>>(reply: &Value) -> RedisResult<T> {
    match reply {
        Value::Int(number) => T::try_from(*number).map_err(|_| unexpected(reply)),
        other => Err(unexpected(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Family;
    use crate::base::lanes::RequestLanes;

    /// Redisson takes the message of a release of a latch for a count of zero.
    #[test]
    fn a_latch_is_released_by_a_count_of_zero_and_a_semaphore_by_permits() {
        let (key, lanes) = (
            LockKey::of(Family::Semaphore, "", "a"),
            RequestLanes::default(),
        );
        let (key, records) = (&key, "records");
        let number = NumberKey { key, records };
        let id = &lanes.next();
        let copy = RequestCopy {
            id,
            is_repeated: false,
        };
        let released = |call: Call| [0, 1, 2].map(|reply| call.has_released(&Value::Int(reply)));
        let change = |change| number.change(copy, change);
        assert_eq!(released(change(Change::CountDown)), [true, false, false]);
        assert_eq!(released(change(Change::SetCount(5))), [false; 3]);
        for call in [
            change(Change::SetPermits(5)),
            change(Change::Add(5)),
            number.undo(id, true),
        ] {
            assert_eq!(released(call), [false, true, true]);
        }
        let take = number.take(copy, 5, &AcquireOptions::default());
        assert_eq!(released(take), [false; 3]);
    }
}
