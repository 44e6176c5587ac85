//! Decodes the replies of a server as they arrive (RESP2, as Redis sends it unless a client asks
//! for RESP3).
//!
//! A server may send a reply in many parts, or without end. The parser of the `redis` crate needs
//! the whole of a reply, and begins at its start again. Here each byte is decoded once, the size of
//! a reply is limited, and no room is made for what has not arrived.

use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::script_error;
use crate::base::excerpt;

/// The largest reply, in bytes. Redis sends larger ones only to commands of operations tools.
const LARGEST: usize = 64 << 20;

/// The most elements of all arrays of a reply. In memory, each is larger than in a reply.
const MOST_ELEMENTS: usize = 1 << 20;

/// The most arrays that are in each other.
const DEEPEST: usize = 100;

/// The largest buffer that is kept for the next bytes.
pub(super) const LARGEST_BUFFER: usize = 16 << 10;

/// The bytes that have arrived, and the part of a reply that they are decoded to.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// Where the next element begins.
    at: usize,
    /// Its first line does not end in this number of bytes.
    searched: usize,
    /// The length of the elements of the reply that are decoded.
    decoded: usize,
    /// The number of elements of its arrays.
    elements: usize,
    /// The arrays that are not complete, each in the one before it.
    arrays: Vec<Array>,
    /// The first error reply in the reply.
    error: Option<RedisError>,
}

#[derive(Debug)]
struct Array {
    elements: Vec<Value>,
    /// The number of elements that are missing.
    missing: usize,
}

/// A part of a reply that is no array, or the beginning of an array of this length.
enum Element {
    Value(Value),
    Error(RedisError),
    Array(usize),
}

impl Decoder {
    /// Adds bytes that have arrived.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next reply; `None` if a part of it is missing. It is an error reply if it contains one.
    /// After an error that is no reply, nothing more can be decoded.
    pub(super) fn next_reply(&mut self) -> RedisResult<Option<RedisResult<Value>>> {
        while let Some(element) = self.next_element()? {
            if let Some(reply) = self.add(element)? {
                (self.decoded, self.elements) = (0, 0);
                return Ok(Some(self.error.take().map_or(Ok(reply), Err)));
            }
        }
        if self.at > 0 {
            self.bytes.drain(..std::mem::take(&mut self.at));
            self.bytes.shrink_to(LARGEST_BUFFER);
        }
        Ok(None)
    }

    /// Adds an element to the array that is not complete. Returns the reply that it completes.
    fn add(&mut self, element: Element) -> RedisResult<Option<Value>> {
        let mut value = match element {
            Element::Value(value) => value,
            Element::Error(error) => {
                self.error = Some(error);
                Value::Nil
            }
            Element::Array(0) => Value::Array(Vec::new()),
            Element::Array(_) if self.arrays.len() == DEEPEST => return Err(malformed()),
            Element::Array(missing) => {
                let elements = Vec::new();
                self.arrays.push(Array { elements, missing });
                return Ok(None);
            }
        };
        while let Some(array) = self.arrays.last_mut() {
            array.elements.push(value);
            array.missing -= 1;
            if array.missing > 0 {
                return Ok(None);
            }
            value = Value::Array(std::mem::take(&mut array.elements));
            self.arrays.pop();
        }
        Ok(Some(value))
    }

    /// Takes the next element; `None` if a part of it is missing.
    fn next_element(&mut self) -> RedisResult<Option<Element>> {
        let rest = &self.bytes[self.at..];
        let mut ends = rest[self.searched..].windows(2);
        let Some(end) = ends.position(|end| end == b"\r\n") else {
            // The last byte may be the first one of the end.
            self.searched = rest.len().saturating_sub(1);
            return check_size(self.decoded, rest.len()).map(|()| None);
        };
        let line = &rest[..self.searched + end];
        let mut length = line.len() + 2;
        let element = match line {
            b"+OK" => Element::Value(Value::Okay),
            [b'+', text @ ..] => {
                Element::Value(Value::SimpleString(String::from_utf8_lossy(text).into()))
            }
            // The first one counts.
            [b'-', ..] if self.error.is_some() => Element::Value(Value::Nil),
            [b'-', text @ ..] => Element::Error(error(text)?),
            [b':', digits @ ..] => Element::Value(Value::Int(number(digits)?)),
            [b'$', digits @ ..] => match usize::try_from(number(digits)?) {
                // There is no text if the length is -1.
                Err(_) => Element::Value(Value::Nil),
                Ok(size) => {
                    let begin = length;
                    length = length.saturating_add(size).saturating_add(2);
                    check_size(self.decoded, length)?;
                    let Some(text) = rest.get(begin..length) else {
                        return Ok(None);
                    };
                    let text = text.strip_suffix(b"\r\n").ok_or_else(malformed)?;
                    Element::Value(Value::BulkString(text.into()))
                }
            },
            [b'*', digits @ ..] => match usize::try_from(number(digits)?) {
                Err(_) => Element::Value(Value::Nil),
                Ok(elements) if elements > MOST_ELEMENTS - self.elements => {
                    return Err(too_large());
                }
                Ok(elements) => {
                    self.elements += elements;
                    Element::Array(elements)
                }
            },
            _ => return Err(malformed()),
        };
        check_size(self.decoded, length)?;
        self.decoded += length;
        self.at += length;
        self.searched = 0;
        Ok(Some(element))
    }
}

fn number(digits: &[u8]) -> RedisResult<i64> {
    let number = str::from_utf8(digits).ok();
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(malformed)
}

/// The error of an error reply, from its line without the minus.
fn error(text: &[u8]) -> RedisResult<RedisError> {
    let text = String::from_utf8_lossy(text);
    let text = script_error::of_version_7(&text).map_or(text, Into::into);
    // The parser of the `redis` crate knows the kinds of errors.
    let line = format!("-{}\r\n", excerpt(format_args!("{text}")));
    let parsed = redis::parse_redis_value(line.as_bytes())?.extract_error();
    parsed.err().ok_or_else(malformed)
}

/// Fails if a reply is too large of which this many bytes are decoded, and this many follow.
fn check_size(decoded: usize, more: usize) -> RedisResult<()> {
    match decoded.saturating_add(more) > LARGEST {
        true => Err(too_large()),
        false => Ok(()),
    }
}

fn too_large() -> RedisError {
    let what = "a reply of the server is larger than 64 MB, or has more than a million elements, \
         so the connection was closed; check that the address is that of Redis, or request less \
         at once";
    (ErrorKind::Parse, what).into()
}

fn malformed() -> RedisError {
    let what = "the server sent bytes that are no reply of Redis; check host and port";
    (ErrorKind::Parse, what).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the bytes are decoded to if they arrive in parts of this length.
    fn decoded(bytes: &[u8], part: usize) -> RedisResult<Vec<RedisResult<Value>>> {
        let (mut decoder, mut replies) = (Decoder::default(), Vec::new());
        for part in bytes.chunks(part) {
            decoder.push(part);
            while let Some(reply) = decoder.next_reply()? {
                replies.push(reply);
            }
        }
        Ok(replies)
    }

    fn is_too_large(bytes: &[u8]) -> bool {
        let error = decoded(bytes, 8 << 10).err();
        error.is_some_and(|error| error.to_string().contains("64 MB"))
    }

    #[test]
    fn what_is_not_a_reply_is_an_error() {
        for odd in [
            "\r\n",
            "?\r\n",
            ":x\r\n",
            ":\r\n",
            "$1\r\nab\r\n",
            "*1\r\n:x\r\n",
            "HTTP/1.1 400\r\n",
            // Of RESP3: the parser of the `redis` crate makes room for all of these.
            "~4000000000\r\n",
            "%4000000000\r\n",
        ] {
            let error = decoded(odd.as_bytes(), 1).unwrap_err();
            assert!(error.to_string().contains("no reply of Redis"), "{odd:?}");
        }
        let deep = [&b"*1\r\n".repeat(101)[..], b":1\r\n"].concat();
        assert!(decoded(&deep, 9).is_err(), "too deep");
        assert!(decoded(b"+", 1).unwrap().is_empty());
        // An error reply without a text.
        let empty = decoded(b"-\r\n", 1).map(|mut replies| replies.remove(0));
        assert!(empty.is_err() || empty.unwrap().is_err());
    }

    #[test]
    fn a_reply_is_too_large_as_soon_as_that_is_known() {
        for size in [4_000_000_000, i64::MAX] {
            assert!(is_too_large(format!("${size}\r\n").as_bytes()), "{size}");
            assert!(is_too_large(format!("*{size}\r\n").as_bytes()), "{size}");
            let nested = format!("*2\r\n:1\r\n*{size}\r\n");
            assert!(is_too_large(nested.as_bytes()), "{size}");
        }
        let half = vec![b'x'; LARGEST / 2];
        let text = [format!("${}\r\n", half.len()).as_bytes(), &half, b"\r\n"].concat();
        assert!(!is_too_large(&text));
        assert!(is_too_large(&[b"*2\r\n", &text[..], &text].concat()));
        assert!(is_too_large(&[b"+", &half[..], &half].concat()));
    }

    /// No byte is looked at twice, however many parts there are.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_time_is_linear_in_the_size_of_a_reply() {
        use rustix::time::{ClockId, clock_gettime};
        let took = |reply: &[u8]| {
            let now = || {
                let time = clock_gettime(ClockId::ThreadCPUTime);
                time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
            };
            let began = now();
            assert_eq!(decoded(reply, 2 << 10).unwrap().len(), 1);
            now() - began
        };
        let numbers = |count| {
            [
                format!("*{count}\r\n").into_bytes(),
                b":1\r\n".repeat(count),
            ]
        };
        let line = |length| [b"+".to_vec(), vec![b'x'; length], b"\r\n".to_vec()].concat();
        for (small, large) in [
            (numbers(1 << 15).concat(), numbers(1 << 19).concat()),
            (line(1 << 17), line(1 << 21)),
        ] {
            let (small, large) = (took(&small), took(&large));
            // Sixteen times the size: quadratic time would be 256 times as long.
            assert!(large < small.max(0.002) * 100.0, "{small} {large}");
        }
    }

    #[test]
    fn the_text_of_an_error_reply_is_bounded() {
        let line = format!("-ERR {}\r\n", "x".repeat(1 << 20));
        let error = decoded(line.as_bytes(), 1 << 12).unwrap().remove(0);
        assert!(error.unwrap_err().to_string().len() < 1_000);
        let nested = decoded(b"*2\r\n-READONLY now\r\n:1\r\n", 5)
            .unwrap()
            .remove(0);
        assert_eq!(nested.unwrap_err().code(), Some("READONLY"));
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
        fn replies_are_decoded_as_by_the_redis_crate(reply in reply(), part in 1_usize..30) {
            let expected = redis::parse_redis_value(&reply).unwrap().extract_error();
            let twice = [&reply[..], &reply].concat();
            let found = decoded(&twice, part).unwrap();
            prop_assert_eq!(&found, &[expected.clone(), expected]);
            prop_assert_eq!(decoded(&reply[..reply.len() - 1], part).unwrap(), []);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decoded(&bytes, 7);
        }
    }
}
