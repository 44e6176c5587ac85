//! The fenced lock: a plain lock whose holds have tokens.

use redis::{RedisResult, Value};

use super::{AcquireReply, Protocol, Wish, plain, unexpected};
use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::script::Call;

/// The largest number of tokens for a grant that other threads of the client wait for: enough for
/// many hand-overs. The script reserves one token only while the tokens are ahead of the server's
/// clock in microseconds.
const BLOCK: u64 = 256;

#[derive(Debug)]
pub(crate) struct Fenced;

impl Protocol for Fenced {
    fn kind(&self) -> &'static str {
        "fenced"
    }

    fn grants(&self) -> fn(&Value) -> bool {
        |reply| matches!(reply, Value::Array(parts) if parts.len() == 2)
    }

    fn acquire(&self, keys: &[&LockKey], owner: &OwnerId, millis: u64, wish: &Wish) -> Call {
        // The call has one key, because this kind is not joinable.
        let tokens = if wish.holds > 1 { BLOCK } else { 1 };
        plain::acquire(keys, (owner, millis), wish, Some(tokens), self.grants())
    }

    fn has_line(&self) -> bool {
        true
    }

    fn acquired(&self, reply: &Value) -> RedisResult<AcquireReply> {
        match reply {
            Value::Array(parts) if parts.len() == 2 => match parts[..] {
                [Value::Int(first @ 1..), Value::Int(count @ 1..)] => {
                    let first = first.unsigned_abs();
                    Ok(AcquireReply::Granted(first..first + count.unsigned_abs()))
                }
                _ => Err(unexpected(reply)),
            },
            other => AcquireReply::held(other),
        }
    }

    fn has_tokens(&self) -> bool {
        true
    }

    fn is_joinable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_decoded() {
        let tokens = Value::Array(vec![Value::Int(7), Value::Int(3)]);
        assert_eq!(
            Fenced.acquired(&tokens).unwrap(),
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
        assert_eq!(Fenced.acquired(&held).unwrap(), expected);
        assert!(!Fenced.grants()(&held) && Fenced.grants()(&tokens));
        for odd in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(0), Value::Int(1)]),
        ] {
            assert!(Fenced.acquired(&odd).is_err(), "no token: {odd:?}");
        }
    }
}
