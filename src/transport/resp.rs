//! Decodes the replies of a server (RESP2, as Redis sends it unless a client asks for RESP3).
//!
//! The parser of the `redis` crate reads from a stream and clears 8 kB for each reply. So it gets
//! whole replies, and none of the few short ones that nearly all requests have.

use redis::{RedisResult, Value};

use super::script_error;

/// Decodes the reply at the start of `bytes`. Also returns its length; `None` if it is incomplete.
pub(super) fn decode(bytes: &[u8]) -> RedisResult<Option<(Value, usize)>> {
    let Some(length) = length(bytes) else {
        return Ok(None);
    };
    let reply = &bytes[..length];
    let value = match reply {
        [b':', digit @ b'0'..=b'9', b'\r', b'\n'] => Value::Int(i64::from(digit - b'0')),
        b"$-1\r\n" => Value::Nil,
        b"+OK\r\n" => Value::Okay,
        [b'-', text @ .., b'\r', b'\n'] => error(reply, text)?,
        _ => redis::parse_redis_value(reply)?,
    };
    Ok(Some((value, length)))
}

/// The length of the reply at the start of `bytes`; `None` if a part of it is missing. That of a
/// malformed reply ends where the parser finds the fault.
fn length(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut missing) = (0_usize, 1_usize);
    while missing > 0 {
        let rest = bytes.get(at..)?;
        let line = &rest[..rest.windows(2).position(|end| end == b"\r\n")?];
        at += line.len() + 2;
        missing -= 1;
        if let [kind @ (b'$' | b'*'), number @ ..] = line {
            let number = str::from_utf8(number).ok();
            // There is no text and no array if the number is -1.
            let number = number.and_then(|number| number.parse::<usize>().ok());
            match (kind, number) {
                (b'$', Some(length)) => at = at.saturating_add(length).saturating_add(2),
                (_, Some(count)) => missing = missing.saturating_add(count),
                (_, None) => {}
            }
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// An error reply, from its line with and without the minus and the end.
fn error(line: &[u8], text: &[u8]) -> RedisResult<Value> {
    let text = str::from_utf8(text).ok();
    // The parser of the `redis` crate knows the kinds of errors.
    match text.and_then(script_error::of_version_7) {
        Some(text) => redis::parse_redis_value(format!("-{text}\r\n").as_bytes()),
        None => redis::parse_redis_value(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> Value {
        let (value, length) = decode(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        value
    }

    #[test]
    fn what_is_not_a_reply_is_an_error() {
        for odd in ["\r\n", "?\r\n", ":x\r\n", ":\r\n", "$1\r\nab\r\n", "+\u{0}"] {
            let decoded = decode(odd.as_bytes());
            assert!(matches!(decoded, Err(_) | Ok(None)), "{odd:?}");
        }
        let deep = [&b"*1\r\n".repeat(101)[..], b":1\r\n"].concat();
        assert!(decode(&deep).is_err(), "too deep");
        let long = format!("${}\r\n", u64::MAX);
        assert!(decode(long.as_bytes()).unwrap().is_none());
        // No room is made for what has not arrived.
        assert!(
            decode(format!("*{}\r\n", i64::MAX).as_bytes())
                .unwrap()
                .is_none()
        );
    }

    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            "[a-zA-Z ]{0,12}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
            "(ERR|MOVED|WRONGTYPE) [a-z0-9 ]{1,12}"
                .prop_map(|text| format!("-{text}\r\n").into_bytes()),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(|text| {
                [
                    format!("${}\r\n", text.len()).as_bytes(),
                    &text[..],
                    b"\r\n",
                ]
                .concat()
            }),
            Just(b"$-1\r\n".to_vec()),
            Just(b"*-1\r\n".to_vec()),
            Just(b"+OK\r\n".to_vec()),
        ];
        leaf.prop_recursive(3, 20, 5, |element| {
            prop::collection::vec(element, 0..5).prop_map(|elements| {
                let head = format!("*{}\r\n", elements.len()).into_bytes();
                [head, elements.concat()].concat()
            })
        })
    }

    proptest! {
        /// The parser of the `redis` crate finds the same, and every shorter part is incomplete.
        #[test]
        fn replies_are_decoded_as_by_the_redis_crate(reply in reply(), next in any::<u8>()) {
            let expected = redis::parse_redis_value(&reply).unwrap();
            prop_assert_eq!(&whole(&reply), &expected);
            for length in 0..reply.len() {
                prop_assert!(decode(&reply[..length]).unwrap().is_none());
            }
            let mut longer = reply.clone();
            longer.push(next);
            prop_assert_eq!(decode(&longer).unwrap(), Some((expected, reply.len())));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode(&bytes);
        }
    }
}
