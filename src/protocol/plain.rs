//! The plain lock: a hash of owner to hold count.

use redis::Value;

use super::{AcquireReply, Kind, Wish};
use crate::base::key::Family;
use crate::base::owner::OwnerId;
use crate::script::{self, Call};

pub(crate) static PLAIN: Kind = Kind {
    name: "reentrant",
    family: Family::Lock,
    is_shared: false,
    is_exclusive: true,
    is_joinable: true,
    has_tokens: false,
    has_line: true,
    to_acquire: &script::ACQUIRE,
    to_release: &script::RELEASE,
    to_leave: &script::LEAVE,
    to_renew: &script::RENEW,
    to_inspect: (&script::INSPECT, ""),
    names: |names, _client| names,
    new_owner: OwnerId::new,
    keys: |call, key| call.key(key.key()),
    written: |owner| owner.as_str().as_bytes().into(),
    channel: |key| (&**key.channel()).into(),
    wish: |call, _keys, _owner, wish| in_line(call, wish).arg(""),
    largest_count: Some(u32::MAX),
    give_up: |key, _client, place| place.map(|place| script::leave_line(key, place, false)),
    grants: |reply| *reply == Value::Nil,
    tokens: |_| 0..0,
    refused: AcquireReply::held,
    turns: |_, _| None,
    has_no_owner: |_| false,
    listens: |_| false,
};

/// Two arguments: the place in the line, or an empty string; and 1 if the caller waits there.
pub(super) fn in_line(call: Call, wish: &Wish) -> Call {
    let place = wish.place.as_deref();
    call.arg(place.unwrap_or_default())
        .flag(place.is_some() && wish.waits)
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
            assert_eq!(PLAIN.acquired(&reply).unwrap(), expected);
        }
        let granted = AcquireReply::Granted(0..0);
        assert_eq!(PLAIN.acquired(&Value::Nil).unwrap(), granted);
        let short = Value::Array(vec![Value::Int(7), Value::Int(1)]);
        for odd in [Value::Okay, short, Value::Array(held(7, 0))] {
            assert!(PLAIN.acquired(&odd).is_err(), "{odd:?}");
        }
    }
}
