//! What the bytes and the names of keys show.

use redis::Value;

use super::*;

const OWNER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:17";
const OTHER: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:18";

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn decode(fields: &[&str], token: Option<Value>) -> Option<Kind> {
    Kind::of_hash(pairs(fields), token, Some(Value::Int(0)))
}

fn pairs(fields: &[&str]) -> Vec<(String, String)> {
    let pairs = fields.chunks_exact(2);
    pairs.map(|pair| (pair[0].into(), pair[1].into())).collect()
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
    let fields = pairs(&[OWNER, "1"]);
    let kind = Kind::of_hash(fields, Some(Value::Nil), Some(Value::Int(3))).unwrap();
    assert_eq!(kind.name(), Some("fair"));
}

#[test]
fn a_hash_with_a_mode_is_a_read_write_lock() {
    let write = &*format!("{OWNER}:write");
    let kind = |fields: &[&str]| decode(fields, None).unwrap();
    for (fields, name, hold, count) in [
        (&["mode", "read", OWNER, "2"][..], "read", Some(2), 2),
        (&[OTHER, "1", "mode", "read", OWNER, "2"], "read", None, 3),
        (&["mode", "write", write, "1"], "write", Some(1), 1),
        (
            &["mode", "write", write, "1", OWNER, "4"],
            "write",
            Some(1),
            1,
        ),
    ] {
        let kind = kind(fields);
        assert_eq!(kind.name(), Some(name));
        assert_eq!(kind.hold(), hold.map(|count| held(OWNER, count)).as_ref());
        assert_eq!(kind.count(), Some(count));
    }
    for other in [
        &["mode", "read"][..],
        &["mode", "write", OWNER, "1"],
        &["mode", "read", write, "1"],
        &["mode", "fast", OWNER, "1"],
        &["mode", "read", OWNER, "zero"],
        &["mode", "read", "name", "Ann"],
        &["mode", "read", "pages", "7"],
        &[OTHER, "1", OWNER, "1"],
    ] {
        assert_eq!(decode(other, None), None, "{other:?}");
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
    ] {
        assert_eq!(decode(fields, None), None, "{fields:?}");
    }
}

#[test]
fn a_lock_is_recognized_by_its_owner() {
    let is_lock = |owner: &str| decode(&[owner, "1"], None).is_some();
    // Redisson takes the number of a thread from the caller. Owners in its transactions are longer.
    for rest in ["17", "-17", "17:0fa3", "017"] {
        let owner = OWNER.replace("17", rest);
        assert!(is_lock(&owner), "{owner}");
    }
    for owner in [
        "name",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8:",
        "6ba7b8109dad11d180b400c04fd430c8:17",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8:main",
    ] {
        assert!(!is_lock(owner), "{owner}");
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
        assert_eq!(number(text(value)), expected, "{value}");
    }
    assert_eq!(number(Value::Nil), None);
}
