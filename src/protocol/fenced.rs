//! The fenced lock: a plain lock whose holds have tokens.

use std::ops::Range;

use redis::Value;

use super::Kind;
use super::plain::{PLAIN, in_line};

/// The largest number of tokens for a grant that other threads of the client wait for: enough for
/// many hand-overs. The script reserves one token only while the tokens are ahead of the server's
/// clock in microseconds.
const BLOCK: &str = "256";

pub(crate) static FENCED: Kind = Kind {
    name: "fenced",
    is_joinable: false,
    has_tokens: true,
    wish: |call, keys, _owner, wish| {
        let call = keys
            .iter()
            .fold(call, |call, key| call.key(&key.last_token()));
        in_line(call, wish).arg(if wish.holds > 1 { BLOCK } else { "1" })
    },
    grants: |reply| tokens(reply).is_some(),
    tokens: |reply| tokens(reply).unwrap_or_default(),
    ..PLAIN
};

/// The reply that grants: the first token, and their number.
fn tokens(reply: &Value) -> Option<Range<u64>> {
    if let Value::Array(parts) = reply
        && let [Value::Int(first @ 1..), Value::Int(count @ 1..)] = parts[..]
    {
        let first = first.unsigned_abs();
        return Some(first..first + count.unsigned_abs());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::AcquireReply;

    #[test]
    fn replies_are_decoded() {
        let tokens = Value::Array(vec![Value::Int(7), Value::Int(3)]);
        assert_eq!(
            FENCED.acquired(&tokens).unwrap(),
            AcquireReply::Granted(7..10)
        );
        let owner = Value::BulkString("a:1".into());
        let held = Value::Array(vec![Value::Int(250), Value::Int(1), owner]);
        let expected = AcquireReply::Held {
            at: 0,
            millis: Some(250),
            owner: "a:1".into(),
            rank: None,
        };
        assert_eq!(FENCED.acquired(&held).unwrap(), expected);
        assert!(!(FENCED.grants)(&held) && (FENCED.grants)(&tokens));
        for odd in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(0), Value::Int(1)]),
        ] {
            assert!(FENCED.acquired(&odd).is_err(), "no token: {odd:?}");
        }
    }
}
