//! Decodes the values of keys.

use redis::{FromRedisValue, Value, from_redis_value};
use uuid::Uuid;

use super::{Fencing, Hold, Kind};

/// The length of a UUID with its dashes.
const UUID: usize = 36;

/// The length of the id of a permit.
const PERMIT: usize = 16;

/// The end of the field of a writer.
const WRITER: &str = ":write";

impl Kind {
    /// From the fields of a hash, the last fencing token, and the length of the queue of a fair
    /// lock. `None` if it is neither a lock by the rule of `lua/shared/holder_of.lua`, nor a
    /// read-write lock.
    pub(crate) fn of_hash(
        fields: Value,
        token: Option<Value>,
        waiting: Option<Value>,
    ) -> Option<Self> {
        let fields: Vec<(String, String)> = decoded(fields)?;
        match &fields[..] {
            [(owner, count)] => Some(Self::Lock {
                hold: hold(owner, count)?,
                fencing: Fencing::of(token),
                waiting: waiting.and_then(decoded).unwrap_or(0),
            }),
            _ => read_write(fields),
        }
    }
}

fn read_write(fields: Vec<(String, String)>) -> Option<Kind> {
    let (mut mode, mut writers, mut readers) = (None, Vec::new(), Vec::new());
    for (field, value) in fields {
        if field == "mode" {
            mode = Some(value);
        } else if let Some(owner) = field.strip_suffix(WRITER) {
            writers.push(hold(owner, &value)?);
        } else {
            readers.push(hold(&field, &value)?);
        }
    }
    let writer = match (mode?.as_str(), writers.len()) {
        ("read", 0) if !readers.is_empty() => None,
        ("write", 1) => writers.pop(),
        _ => return None,
    };
    readers.sort_by(|a, b| a.owner.cmp(&b.owner));
    Some(Kind::ReadWrite { writer, readers })
}

impl Fencing {
    fn of(token: Option<Value>) -> Self {
        match token {
            Some(Value::Nil) => Self::Never,
            Some(token) => decoded(token).map_or(Self::Unknown, Self::Last),
            None => Self::Unknown,
        }
    }
}

fn decoded<T: FromRedisValue>(value: Value) -> Option<T> {
    from_redis_value(value).ok()
}

/// The number in a string, as Redis writes numbers.
pub(crate) fn number(value: &Value) -> Option<i64> {
    let Value::BulkString(text) = value else {
        return None;
    };
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

/// True if a member of a sorted set can be the id of a permit.
pub(crate) fn is_permit(member: &[u8]) -> bool {
    member.len() == PERMIT
}

fn hold(owner: &str, count: &str) -> Option<Hold> {
    let count = is_owner(owner).then(|| hold_count(count))??;
    let owner = owner.into();
    Some(Hold { owner, count })
}

fn is_owner(field: &str) -> bool {
    let is_printable = |byte| matches!(byte, b' '..=b'~');
    !field.is_empty() && field != "mode" && field.bytes().all(is_printable)
}

fn hold_count(value: &str) -> Option<u64> {
    let count: u32 = value.parse().ok()?;
    // Without a sign and leading zeros.
    (count > 0 && count.to_string() == value).then_some(count.into())
}

/// True for `<client uuid>:<number>`.
pub(super) fn is_usual_owner(owner: &str) -> bool {
    owner.split_once(':').is_some_and(|(client, thread)| {
        let number = !thread.is_empty() && thread.bytes().all(|byte| byte.is_ascii_digit());
        client.len() == UUID && Uuid::try_parse(client).is_ok() && number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:17";
    const OTHER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:18";

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn decode(fields: &[&str], token: Option<Value>) -> Option<Kind> {
        let fields = Value::Array(fields.iter().map(|field| text(field)).collect());
        Kind::of_hash(fields, token, Some(Value::Int(0)))
    }

    fn held(owner: &str, count: u64) -> Hold {
        let owner = owner.into();
        Hold { owner, count }
    }

    #[test]
    fn a_hash_of_an_owner_and_a_count_is_a_lock() {
        let kind = decode(&[OWNER, "2"], Some(Value::Nil)).unwrap();
        assert_eq!(kind.hold(), Some(&held(OWNER, 2)));
        assert_eq!(kind.name(), Some("reentrant"));
        let kind = decode(&[OWNER, "4294967295"], Some(text("7"))).unwrap();
        assert_eq!(kind.hold(), Some(&held(OWNER, 4_294_967_295)));
        assert_eq!(kind.name(), Some("fenced"));
        let fields = Value::Array(vec![text(OWNER), text("1")]);
        let kind = Kind::of_hash(fields, Some(Value::Nil), Some(Value::Int(3))).unwrap();
        assert_eq!(kind.name(), Some("fair"));
    }

    #[test]
    fn a_token_that_cannot_be_read_is_unknown() {
        for token in [None, Some(text("many"))] {
            let kind = decode(&[OWNER, "1"], token).unwrap();
            assert_eq!(kind.name(), None);
        }
    }

    #[test]
    fn a_hash_with_a_mode_is_a_read_write_lock() {
        let write = format!("{OWNER}:write");
        let kind = |fields: &[&str]| decode(fields, None).unwrap();
        let one = kind(&["mode", "read", OWNER, "2"]);
        assert_eq!(
            (one.name(), one.hold()),
            (Some("read"), Some(&held(OWNER, 2)))
        );
        let two = kind(&[OTHER, "1", "mode", "read", OWNER, "2"]);
        assert_eq!(
            (two.name(), two.hold(), two.count()),
            (Some("read"), None, Some(3))
        );
        let writer = kind(&["mode", "write", &write, "1"]);
        assert_eq!(
            (writer.name(), writer.hold()),
            (Some("write"), Some(&held(OWNER, 1)))
        );
        let both = kind(&["mode", "write", &write, "1", OWNER, "4"]);
        assert_eq!(
            (both.name(), both.count(), both.is_certain()),
            (Some("write"), Some(1), true)
        );
        for other in [
            &["mode", "read"][..],
            &["mode", "write", OWNER, "1"],
            &["mode", "read", &write, "1"],
            &["mode", "fast", OWNER, "1"],
            &["mode", "read", OWNER, "zero"],
            &["mode", "read", "name", "Ann"],
            &[OTHER, "1", OWNER, "1"],
        ] {
            assert_eq!(decode(other, None), None, "{other:?}");
        }
        let data = kind(&["mode", "read", "pages", "7"]);
        assert!(!data.is_certain());
    }

    #[test]
    fn a_hash_without_an_owner_and_a_count_is_no_lock() {
        for fields in [
            &[][..],
            &[OWNER, "0"],
            &[OWNER, "-1"],
            &[OWNER, "+1"],
            &[OWNER, "01"],
            &[OWNER, "one"],
            &[OWNER, "4294967296"],
            &["", "1"],
            &["mode", "1"],
            &["two\nlines", "1"],
        ] {
            assert_eq!(decode(fields, None), None, "{fields:?}");
        }
    }

    #[test]
    fn a_lock_is_recognized_by_its_owner_among_all_keys() {
        let is_certain = |owner| decode(&[owner, "1"], None).unwrap().is_certain();
        assert!(is_certain(OWNER));
        for owner in [
            "name",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8:",
            "6ba7b8109dad11d180b400c04fd430c8:17",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8:main",
        ] {
            assert!(!is_certain(owner), "{owner}");
        }
    }

    #[test]
    fn a_number_is_written_as_redis_writes_it() {
        for (value, expected) in [
            ("0", Some(0)),
            ("-3", Some(-3)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("+1", None),
            ("01", None),
            ("-0", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(number(&text(value)), expected, "{value}");
        }
        assert_eq!(number(&Value::Nil), None);
    }
}
