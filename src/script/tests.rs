use super::*;

#[test]
fn replies_of_scripts_are_decoded() {
    assert_eq!(
        acquire_reply(&Value::Nil).unwrap(),
        AcquireReply::Taken(None)
    );
    let token = Value::Array(vec![Value::Int(7)]);
    assert_eq!(
        fenced_acquire_reply(&token).unwrap(),
        AcquireReply::Taken(Some(7))
    );
    assert_eq!(
        fenced_acquire_reply(&Value::Int(250)).unwrap(),
        AcquireReply::Held(Some(250))
    );
    assert_eq!(
        acquire_reply(&Value::Int(250)).unwrap(),
        AcquireReply::Held(Some(250))
    );
    assert_eq!(
        acquire_reply(&Value::Int(-1)).unwrap(),
        AcquireReply::Held(None)
    );
    assert_eq!(verdict(&Value::Int(1)).unwrap(), Verdict::Done);
    assert_eq!(
        verdict(&Value::Int(0)).unwrap(),
        Verdict::Lost(LostReason::Deleted)
    );
    assert_eq!(
        verdict(&Value::Int(-1)).unwrap(),
        Verdict::Lost(LostReason::Taken)
    );
}

#[test]
fn all_scripts_agree_on_what_a_lock_is() {
    let rule = |script: &Script| -> Vec<&str> {
        let (_, rest) = script.source.split_once("if type(fields)").unwrap();
        let (rule, _) = rest.split_once("'WRONGTYPE lock: '").unwrap();
        rule.lines().map(str::trim).collect()
    };
    let acquire = rule(&ACQUIRE);
    assert_eq!(acquire, rule(&FORCE_UNLOCK));
    assert_eq!(acquire, rule(&INSPECT));
}

#[test]
fn a_value_of_another_type_is_named_with_its_key() {
    let key = LockKey::new("shop", "pay");
    for (line, expected) in [
        ("WRONGTYPE lock: a list", "a list in the key \"shop:pay\""),
        (
            "WRONGTYPE token: a set",
            "a set in the token key \"redisson_lock_token:{shop:pay}\"",
        ),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "a value that is not a hash in the key \"shop:pay\"",
        ),
    ] {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let error = value.extract_error().unwrap_err();
        assert_eq!(found(&key, &error), expected);
    }
}

#[test]
fn an_unexpected_reply_is_an_error() {
    for odd in [Value::Okay, Value::Int(7), Value::Array(vec![])] {
        assert!(verdict(&odd).is_err(), "{odd:?}");
        assert!(verdicts(&odd, 1).is_err(), "{odd:?}");
    }
    assert!(acquire_reply(&Value::Okay).is_err());
    for odd in [
        Value::Nil,
        Value::Array(vec![]),
        Value::Array(vec![Value::Int(0)]),
    ] {
        assert!(fenced_acquire_reply(&odd).is_err(), "no token: {odd:?}");
    }
    // There are fewer verdicts than locks, so it is unknown which one is missing.
    assert!(verdicts(&Value::Array(vec![Value::Int(1)]), 2).is_err());
}
