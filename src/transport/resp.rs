//! Decodes the replies of a server (RESP2, as Redis sends it unless a client asks for RESP3).
//!
//! The parser of the `redis` crate clears 8 kB for each reply. That takes longer than a lock's own
//! work, and puts other data out of the processor's cache.

use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::script_error;

/// The deepest nesting of arrays.
const MAX_DEPTH: u32 = 16;

/// The longest text, as on the server.
const MAX_LENGTH: usize = 512 << 20;

/// Elements for which an array gets room before they have arrived.
const FIRST_ELEMENTS: usize = 1024;

/// Decodes the reply at the start of `bytes`. Also returns its length; `None` if it is incomplete.
pub(super) fn decode(bytes: &[u8]) -> RedisResult<Option<(Value, usize)>> {
    let mut decoder = Decoder { bytes, at: 0 };
    let value = decoder.value(MAX_DEPTH)?;
    Ok(value.map(|value| (value, decoder.at)))
}

struct Decoder<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Decoder<'b> {
    fn value(&mut self, depth: u32) -> RedisResult<Option<Value>> {
        let start = self.at;
        let Some(line) = self.line() else {
            return Ok(None);
        };
        let (Some(kind), Some(text)) = (line.first(), line.get(1..)) else {
            return Err(malformed("an empty line"));
        };
        match kind {
            b':' => Ok(Some(Value::Int(integer(text)?))),
            b'+' if text == b"OK" => Ok(Some(Value::Okay)),
            b'+' => {
                let text = std::str::from_utf8(text).map_err(|_| malformed("text"))?;
                Ok(Some(Value::SimpleString(text.into())))
            }
            b'-' => error(&self.bytes[start..self.at], text).map(Some),
            b'$' => match length(text)? {
                None => Ok(Some(Value::Nil)),
                Some(length) => self.bulk(length),
            },
            b'*' => match length(text)? {
                None => Ok(Some(Value::Nil)),
                Some(count) => self.array(count, depth),
            },
            _ => Err(malformed("an unknown type")),
        }
    }

    /// The next line, without its end.
    fn line(&mut self) -> Option<&'b [u8]> {
        let rest = &self.bytes[self.at..];
        let length = rest.windows(2).position(|end| end == b"\r\n")?;
        self.at += length + 2;
        Some(&rest[..length])
    }

    fn bulk(&mut self, length: usize) -> RedisResult<Option<Value>> {
        if length > MAX_LENGTH {
            return Err(malformed("a text that is too long"));
        }
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.get(length..length + 2) else {
            return Ok(None);
        };
        if end != b"\r\n" {
            return Err(malformed("a text without an end"));
        }
        self.at += length + 2;
        Ok(Some(Value::BulkString(rest[..length].to_vec())))
    }

    fn array(&mut self, count: usize, depth: u32) -> RedisResult<Option<Value>> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(malformed("arrays that are nested too deeply"));
        };
        let mut values = Vec::with_capacity(count.min(FIRST_ELEMENTS));
        for _ in 0..count {
            match self.value(depth)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(Value::Array(values)))
    }
}

/// An error reply, from its line with and without the minus and the end.
fn error(line: &[u8], text: &[u8]) -> RedisResult<Value> {
    let text = std::str::from_utf8(text).ok();
    // The parser of the `redis` crate knows the kinds of errors.
    match text.and_then(script_error::of_version_7) {
        Some(text) => redis::parse_redis_value(format!("-{text}\r\n").as_bytes()),
        None => redis::parse_redis_value(line),
    }
}

fn integer(text: &[u8]) -> RedisResult<i64> {
    // Nearly all numbers, and the length of a reply without a value.
    match text {
        [digit @ b'0'..=b'9'] => return Ok(i64::from(digit - b'0')),
        b"-1" => return Ok(-1),
        _ => {}
    }
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| malformed("a number"))
}

/// The length of a text or an array; `None` for a reply without a value.
fn length(text: &[u8]) -> RedisResult<Option<usize>> {
    match integer(text)? {
        -1 => Ok(None),
        length => usize::try_from(length)
            .map(Some)
            .map_err(|_| malformed("a length")),
    }
}

fn malformed(what: &'static str) -> RedisError {
    RedisError::from((
        ErrorKind::Parse,
        "the server sent an invalid reply",
        what.into(),
    ))
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
    fn each_type_is_decoded() {
        assert_eq!(whole(b":-12\r\n"), Value::Int(-12));
        assert_eq!(whole(b"+OK\r\n"), Value::Okay);
        assert_eq!(whole(b"+PONG\r\n"), Value::SimpleString("PONG".into()));
        assert_eq!(whole(b"$-1\r\n"), Value::Nil);
        assert_eq!(whole(b"*-1\r\n"), Value::Nil);
        assert_eq!(whole(b"$0\r\n\r\n"), Value::BulkString(Vec::new()));
        assert_eq!(
            whole(b"$4\r\na\r\nb\r\n"),
            Value::BulkString(b"a\r\nb".into())
        );
        let nested = Value::Array(vec![Value::Int(1), Value::Array(vec![Value::Nil])]);
        assert_eq!(whole(b"*2\r\n:1\r\n*1\r\n$-1\r\n"), nested);
        let error = whole(b"-NOSCRIPT No matching script.\r\n").extract_error();
        assert_eq!(error.unwrap_err().code(), Some("NOSCRIPT"));
    }

    #[test]
    fn what_is_not_a_reply_is_an_error() {
        for odd in [
            "\r\n",
            "?\r\n",
            ":x\r\n",
            ":\r\n",
            "$-2\r\n",
            "$1\r\nab\r\n",
            "*-7\r\n",
            "+\u{0}",
        ] {
            let decoded = decode(odd.as_bytes());
            assert!(matches!(decoded, Err(_) | Ok(None)), "{odd:?}");
        }
        assert!(decode(&b"*1\r\n".repeat(17)).is_err(), "too deep");
        assert!(decode(format!("${}\r\n", MAX_LENGTH + 1).as_bytes()).is_err());
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
