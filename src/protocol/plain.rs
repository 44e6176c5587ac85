//! The plain lock: a hash of owner to hold count.

use super::{AcquireOptions, Kind};
use crate::base::{Family, OwnerId};
use crate::script::{self, Call};

pub(crate) static PLAIN: Kind = Kind {
    name: "reentrant",
    family: Family::Lock,
    is_shared: false,
    has_ticket: true,
    is_joinable: true,
    has_tokens: false,
    has_line: true,
    to_acquire: &script::ACQUIRE,
    to_release: &script::RELEASE,
    to_leave: &script::LEAVE,
    to_renew: &script::RENEW,
    to_adopt: &script::ADOPT,
    to_inspect: (&script::INSPECT, "lock"),
    names: |names, _client| names,
    new_owner: OwnerId::new,
    keys: |call, key| call.key(key.key()),
    written: |owner| owner.as_str().as_bytes().into(),
    channel: |key| (&**key.channel()).into(),
    options: |call, _keys, _owner, options| in_line(call, options).arg(""),
    largest_count: Some(u32::MAX),
    give_up: |key, _client, place| place.map(|place| script::leave_line(key, place, false)),
    turns: |_, _| None,
};

/// Two arguments: the place in the line, or an empty string; and 1 if the caller waits there.
pub(super) fn in_line(call: Call, options: &AcquireOptions) -> Call {
    let place = options.place.as_deref();
    call.arg(place.unwrap_or_default())
        .flag(place.is_some() && options.waits)
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use crate::base::Moment;
    use crate::protocol::{Refusal, Standing, acquired};

    #[test]
    fn replies_are_decoded() {
        let asked = Moment::now();
        let held = |millis, number| {
            let owner = Value::BulkString("a:1".into());
            vec![Value::Int(millis), Value::Int(number), owner]
        };
        let in_line = [held(250, 3), vec![Value::Int(7)]].concat();
        let listens = [&in_line[..], &[Value::Int(1)]].concat();
        for (reply, at, millis, rank, listens) in [
            (held(250, 3), 2, Some(250), None, false),
            (in_line, 2, Some(250), Some(7), false),
            (listens, 2, Some(250), Some(7), true),
            (held(-1, 1), 0, None, None, false),
        ] {
            let (reply, owner) = (Value::Array(reply), "a:1".into());
            let expected = Refusal {
                at,
                millis,
                owner,
                standing: Standing {
                    rank,
                    listens,
                    asked,
                },
            };
            assert_eq!(acquired(&reply, asked).unwrap(), Err(expected));
        }
        let pair = |first, count| Value::Array(vec![Value::Int(first), Value::Int(count)]);
        for (reply, tokens) in [
            (Value::Nil, 0..0),
            (Value::Int(1), 0..0),
            (pair(7, 3), 7..10),
        ] {
            assert_eq!(acquired(&reply, asked).unwrap(), Ok(tokens));
        }
        let held_by_none = Value::Array(held(7, 0));
        let odd = [
            Value::Okay,
            Value::Int(0),
            pair(0, 1),
            pair(7, 0),
            held_by_none,
        ];
        for odd in odd {
            assert!(acquired(&odd, asked).is_err(), "{odd:?}");
        }
    }
}
