//! One lock in Redis, as text and as JSON.

use std::sync::Arc;
use std::time::Duration;

use redis::{FromRedisValue, Value, from_redis_value};
use serde_json::{Map, json};
use uuid::Uuid;

/// The length of a UUID with its dashes.
const UUID: usize = 36;

/// The fencing tokens of a lock. The last token stays when the lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fencing {
    Never,
    Last(u64),
    /// The user may not read it, or its slot moves to another server.
    Unknown,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: Vec<u8>,
    pub(super) fencing: Fencing,
    pub(super) owner: String,
    pub(super) count: u64,
    /// `None`: it never expires.
    pub(super) time_to_live: Option<Duration>,
    pub(super) server: Arc<str>,
}

impl Row {
    /// From the replies to HGETALL and PTTL of the lock, and to GET of its token if there is one.
    /// `None` if it is no lock by the rule of `lua/inspect.lua`, or has ended.
    pub(super) fn decode(
        name: &[u8],
        server: &Arc<str>,
        fields: Value,
        millis_left: Value,
        token: Option<Value>,
    ) -> Option<Self> {
        let [(owner, count)]: [(String, String); 1] =
            decoded::<Vec<(String, String)>>(fields)?.try_into().ok()?;
        let millis_left: i64 = decoded(millis_left)?;
        // The hold ended between two commands.
        if millis_left == -2 || !is_owner(&owner) {
            return None;
        }
        let count = hold_count(&count)?;
        Some(Self {
            name: name.into(),
            fencing: Fencing::of(token),
            owner,
            count,
            time_to_live: u64::try_from(millis_left).ok().map(Duration::from_millis),
            server: Arc::clone(server),
        })
    }

    /// True if the owner is `<client uuid>:<number>`, as this crate and Redisson write it.
    /// Any other hash may be data of another program.
    pub(super) fn is_certainly_a_lock(&self) -> bool {
        self.owner.split_once(':').is_some_and(|(client, thread)| {
            let number = !thread.is_empty() && thread.bytes().all(|byte| byte.is_ascii_digit());
            client.len() == UUID && Uuid::try_parse(client).is_ok() && number
        })
    }

    pub(super) fn shown_name(&self) -> String {
        shown(&String::from_utf8_lossy(&self.name))
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self.fencing {
            Fencing::Last(token) => Some(token),
            Fencing::Never | Fencing::Unknown => None,
        }
    }

    pub(super) fn shown_kind(&self) -> &'static str {
        self.kind().unwrap_or("unknown")
    }

    fn kind(&self) -> Option<&'static str> {
        match self.fencing {
            Fencing::Never => Some("reentrant"),
            Fencing::Last(_) => Some("fenced"),
            Fencing::Unknown => None,
        }
    }

    pub(super) fn shown_time(&self) -> String {
        self.time_to_live
            .map_or("never".into(), |left| format!("{:.1}s", left.as_secs_f64()))
    }

    /// For scripts. The keys stay; more can be added.
    pub(super) fn json(&self, with_server: bool) -> Map<String, serde_json::Value> {
        let millis = self.time_to_live.map(|left| left.as_millis() as u64);
        let mut object = Map::new();
        object.insert("name".into(), json!(String::from_utf8_lossy(&self.name)));
        object.insert("kind".into(), json!(self.kind()));
        object.insert("owner".into(), json!(self.owner));
        object.insert("count".into(), json!(self.count));
        object.insert("ttl_ms".into(), json!(millis));
        if with_server {
            object.insert("server".into(), json!(&*self.server));
        }
        object
    }
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

fn is_owner(field: &str) -> bool {
    let is_printable = |byte| matches!(byte, b' '..=b'~');
    !field.is_empty() && field != "mode" && field.bytes().all(is_printable)
}

fn hold_count(value: &str) -> Option<u64> {
    let count: u32 = value.parse().ok()?;
    // Without a sign and leading zeros.
    (count > 0 && count.to_string() == value).then_some(count.into())
}

/// A name for messages: in quotes and escaped if it could control a terminal or be misread.
pub(super) fn shown(name: &str) -> String {
    let quoted = format!("{name:?}");
    let plain = quoted.len() == name.len() + 2 && !name.is_empty();
    if plain && !name.contains(char::is_whitespace) {
        name.into()
    } else {
        quoted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:17";

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn decode(fields: &[&str], millis_left: i64, token: Option<Value>) -> Option<Row> {
        let fields = Value::Array(fields.iter().map(|field| text(field)).collect());
        Row::decode(b"a", &"h:1".into(), fields, Value::Int(millis_left), token)
    }

    #[test]
    fn a_hash_of_an_owner_and_a_count_is_a_lock() {
        let row = decode(&[OWNER, "2"], 28_432, Some(Value::Nil)).unwrap();
        assert_eq!((row.owner.as_str(), row.count), (OWNER, 2));
        assert_eq!(
            (row.shown_kind(), &*row.shown_time()),
            ("reentrant", "28.4s")
        );
        let row = decode(&[OWNER, "1"], -1, Some(text("7"))).unwrap();
        assert_eq!((row.shown_kind(), &*row.shown_time()), ("fenced", "never"));
        assert_eq!(row.token(), Some(7));
    }

    #[test]
    fn a_token_that_cannot_be_read_is_unknown() {
        for token in [None, Some(text("many"))] {
            let row = decode(&[OWNER, "1"], -1, token).unwrap();
            assert_eq!((row.shown_kind(), row.token()), ("unknown", None));
            assert_eq!(row.json(false)["kind"], json!(null));
        }
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
            &["mode", "write", OWNER, "1"],
        ] {
            assert_eq!(decode(fields, 1, None), None, "{fields:?}");
        }
        assert_eq!(decode(&[OWNER, "1"], -2, None), None);
        assert_eq!(
            decode(&[OWNER, "4294967295"], 1, None).unwrap().count,
            4_294_967_295
        );
    }

    #[test]
    fn a_lock_is_recognized_by_its_owner_among_all_keys() {
        let is_certain = |owner| {
            decode(&[owner, "1"], 1, None)
                .unwrap()
                .is_certainly_a_lock()
        };
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
    fn names_cannot_control_a_terminal() {
        for (name, expected) in [
            ("order:pay", "order:pay"),
            ("größe☃", "größe☃"),
            ("", "\"\""),
            ("two words", "\"two words\""),
            ("\"", "\"\\\"\""),
            ("\x1b[2J", "\"\\u{1b}[2J\""),
            ("\u{9b}2J", "\"\\u{9b}2J\""),
            ("\u{202e}live", "\"\\u{202e}live\""),
        ] {
            assert_eq!(shown(name), expected);
        }
    }
}
