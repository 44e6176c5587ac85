//! Kinds without a holder, whose key is a number: the free permits of a semaphore, or the count of
//! a latch.
//!
//! A call that changes the number is a [`RequestCopy`]: Redis executes at most one copy of a
//! request. The key of the records with which it does so is made by [`records`].

use redis::{RedisResult, Value};

use super::{rank_of, unexpected};
use crate::base::key::LockKey;
use crate::base::lanes::RequestId;
use crate::script::{self, Call, Script};

/// What Redisson publishes when a count is set.
const NEW_COUNT: &str = "1";

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

impl<'a> RequestCopy<'a> {
    pub(crate) fn first(id: &'a RequestId<'a>) -> Self {
        Self {
            id,
            is_repeated: false,
        }
    }
}

/// How a request for permits treats those that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask<'a> {
    /// How many more permits must be free: for threads of this client that have waited longer.
    pub(crate) left_over: u64,
    /// The place of the client in the line of the semaphore, if it has or wants one.
    pub(crate) place: Option<&'a str>,
    /// The caller waits if it gets none, and leaves those that are reserved.
    pub(crate) waits: bool,
}

impl<'a> Ask<'a> {
    /// The caller waits in the line, where the client has this place.
    pub(crate) fn in_line(place: &'a str) -> Self {
        Self {
            place: Some(place),
            waits: true,
            left_over: 0,
        }
    }
}

/// The reply to a request for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Done,
    Refused {
        /// The number of clients before this one in the line; `None` if this client is in no line.
        rank: Option<u32>,
        /// The client also listens to the channel of the semaphore.
        listens: bool,
    },
}

impl NumberKey<'_> {
    fn call(self, script: &'static Script) -> Call {
        Call::new(script).key(self.key.key()).key(self.records)
    }

    /// Reads the number.
    pub(crate) fn read(self) -> Call {
        Call::new(&script::READ_NUMBER).key(self.key.key())
    }

    /// Sets the free permits of a semaphore if there is no number. Replies 1 if they are set.
    pub(crate) fn set_permits(self, copy: RequestCopy<'_>, permits: u32) -> Call {
        let permits = permits.to_string();
        self.set(copy, &permits, &permits).publishing()
    }

    /// Sets the count of a latch if there is none. Replies 1 if it is set, which opens no latch.
    pub(crate) fn set_count(self, copy: RequestCopy<'_>, count: u64) -> Call {
        self.set(copy, &count.to_string(), NEW_COUNT)
            .publishing_if(|_| false)
    }

    fn set(self, copy: RequestCopy<'_>, number: &str, message: &str) -> Call {
        let call = self.call(&script::SET_NUMBER).arg(number).arg(message);
        once(call, copy).arg(&**self.key.channel())
    }

    /// Takes `permits`. Replies whether it [took](taken) them.
    pub(crate) fn take(self, copy: RequestCopy<'_>, permits: u32, ask: Ask<'_>) -> Call {
        let call = self
            .call(&script::TAKE_PERMITS)
            .arg(permits.to_string())
            .arg(ask.left_over.to_string());
        once(call, copy)
            .arg(ask.place.unwrap_or_default())
            .flag(ask.waits)
            .acquiring(|reply| matches!(reply, Value::Int(1..)))
            // It releases nothing.
            .publishing_if(|_| false)
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

    /// Decreases the count of a latch. Replies the count then; zero opens the latch.
    pub(crate) fn count_down(self, copy: RequestCopy<'_>) -> Call {
        once(self.call(&script::COUNT_DOWN), copy)
            .arg(&**self.key.channel())
            .publishing_if(|reply| *reply == Value::Int(0))
    }
}

fn identified(call: Call, id: &RequestId<'_>) -> Call {
    call.arg(id.lane.to_string()).arg(id.number.to_string())
}

fn once(call: Call, copy: RequestCopy<'_>) -> Call {
    identified(call, copy.id).flag(copy.is_repeated)
}

/// The reply to [`take`](NumberKey::take).
pub(crate) fn taken(reply: &Value) -> RedisResult<Taken> {
    let refused = |rank, listens| Ok(Taken::Refused { rank, listens });
    match reply {
        Value::Int(1..) => Ok(Taken::Done),
        Value::Int(0) => refused(None, false),
        Value::Array(place) => match place[..] {
            [Value::Int(0..), Value::Int(listens)] => refused(rank_of(place), listens == 1),
            _ => Err(unexpected(reply)),
        },
        other => Err(unexpected(other)),
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
    use crate::base::key::Family;
    use crate::base::lanes::Lanes;

    /// Redisson takes the message of a release of a latch for a count of zero.
    #[test]
    fn a_latch_is_released_by_a_count_of_zero_and_a_semaphore_by_permits() {
        let (key, lanes) = (LockKey::of(Family::Semaphore, "", "a"), Lanes::default());
        let (key, records) = (&key, "records");
        let number = NumberKey { key, records };
        let id = &lanes.next();
        let copy = RequestCopy {
            id,
            is_repeated: false,
        };
        let released = |call: Call| [0, 1, 2].map(|reply| call.has_released(&Value::Int(reply)));
        assert_eq!(released(number.count_down(copy)), [true, false, false]);
        assert_eq!(released(number.set_count(copy, 5)), [false; 3]);
        for call in [
            number.set_permits(copy, 5),
            number.add(copy, 5),
            number.give_back(id),
        ] {
            assert_eq!(released(call), [false, true, true]);
        }
        assert_eq!(released(number.take(copy, 5, Ask::default())), [false; 3]);
    }
}
