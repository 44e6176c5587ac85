//! Commands that Redis executes only while the lock is held.

use redis::{FromRedisValue, Pipeline, Value};

use super::Stage;
use crate::support::prelude::*;

/// A key in the slot of the lock.
fn key(stage: &Stage) -> String {
    format!("{{{}}}:data", stage.key())
}

/// Adds one to the key, and appends to the list `KEY:list` what that gives.
fn add_one(key: &str) -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline
        .incr(key, 1)
        .cmd("RPUSH")
        .arg(format!("{key}:list"));
    pipeline.arg("added").ignore();
    pipeline
}

fn read<T: FromRedisValue>(stage: &Stage, command: &str, key: &str) -> T {
    let command = redis::cmd(command).arg(key).to_owned();
    command.query(&mut stage.redis()).expect("a reply")
}

fn count(stage: &Stage, key: &str) -> (Option<u64>, u64) {
    (
        read(stage, "GET", key),
        read(stage, "LLEN", &format!("{key}:list")),
    )
}

pub fn it_is_executed_while_the_lock_is_held(stage: &Stage) {
    let (lock, key) = (stage.lock(), key(stage));
    let guard = lock.acquire().unwrap();
    let nested = lock.acquire().unwrap();
    assert_eq!(guard.query::<(u64,)>(&add_one(&key)).unwrap(), (1,));
    assert_eq!(nested.query::<(u64,)>(&add_one(&key)).unwrap(), (2,));
    let atomic: (u64,) = guard.query(add_one(&key).atomic()).unwrap();
    assert_eq!((atomic, count(stage, &key)), ((3,), (Some(3), 3)));
    let mut all = redis::pipe();
    all.get(&key)
        .cmd("GET")
        .arg(format!("{key}:none"))
        .cmd("SET")
        .arg(&key)
        .arg("4");
    all.cmd("HGETALL").arg(format!("{key}:none"));
    let three = Value::BulkString("3".into());
    let replies = vec![three, Value::Nil, Value::Okay, Value::Array(vec![])];
    assert_eq!(guard.query::<Vec<Value>>(&all).unwrap(), replies);
    guard.query::<()>(&redis::pipe()).unwrap();
    nested.unlock().unwrap();
    guard.unlock().unwrap();

    let owned = lock.acquire_owned(Lease::fixed(SOON.get())).unwrap();
    let five = on_another_thread(|| owned.query::<(u64,)>(&add_one(&key)));
    assert_eq!(five.unwrap(), (5,));
    owned.unlock().unwrap();
    stage.await_count(0);
}

/// As with EXEC. The first error is returned.
pub fn a_command_that_fails_does_not_end_the_others(stage: &Stage) {
    let (lock, key) = (stage.lock(), key(stage));
    let guard = lock.acquire().unwrap();
    let mut failing = add_one(&key);
    failing
        .cmd("HGET")
        .arg(&key)
        .arg("field")
        .cmd("LLEN")
        .arg(&key)
        .incr(&key, 1);
    for pipeline in [failing.clone(), failing.clone().atomic().clone()] {
        let failed = guard.query::<Vec<Value>>(&pipeline);
        let Err(
            error @ Error::Query {
                executed: true,
                cause,
                ..
            },
        ) = &failed
        else {
            panic!("{failed:?}");
        };
        let cause = cause
            .downcast_ref::<redis::RedisError>()
            .unwrap()
            .to_string();
        assert!(
            cause.contains("WRONGTYPE") || cause.contains("WrongType"),
            "{cause}"
        );
        assert!(!error.is_transient());
    }
    assert_eq!(count(stage, &key), (Some(4), 2));
    let results: Vec<redis::RedisResult<Value>> = guard.query(failing.ignore_errors()).unwrap();
    let are_ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(are_ok, [true, false, false, true]);
    let unfit = guard.query::<(Vec<String>,)>(&add_one(&key));
    assert_matches!(unfit, Err(Error::Query { executed: true, .. }));
    guard.check().unwrap();
}

pub fn nothing_is_executed_after_the_loss(stage: &Stage) {
    let (lock, key) = (stage.lock(), key(stage));
    let deletes: fn(&Stage) = Stage::delete;
    let takes_over: fn(&Stage) =
        |stage| stage.take_over("b4a9e8a4-0000-4000-8000-000000000000:7", SOON.get());
    for loss in [deletes, takes_over] {
        let guard = lock.acquire_with(long()).unwrap();
        let lost = guard.lost();
        loss(stage);
        assert_matches!(guard.query::<()>(&add_one(&key)), Err(Error::Lost { .. }));
        assert!(guard.is_lost() && lost.try_recv().is_ok());
        assert_matches!(guard.query::<()>(&add_one(&key)), Err(Error::Lost { .. }));
        drop(guard);
        stage.delete();
    }
    assert_eq!(count(stage, &key), (None, 0));
}
