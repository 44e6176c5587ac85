//! All shapes of functions, without a warning that the same function would not have without the
//! attribute.

#![warn(clippy::pedantic)]
#![allow(
    clippy::missing_errors_doc,
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "they are about the functions, with the attribute or without"
)]

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::rc::Rc;
use std::sync::Arc;

use leasehold::{CurrentLock, Error, LockClient, current_lock, locked};

use crate::shop::{Shop, assert_not_held};

type Boxed<T> = Result<T, Box<dyn std::error::Error>>;

/// Asserts that the current lock has this name and is held.
#[track_caller]
fn assert_locked(name: &str) {
    let lock = current_lock();
    assert_eq!(lock.name(), name);
    lock.check().expect("it is held");
}

struct Desk {
    locks: Arc<LockClient>,
    names: Vec<String>,
    orders: BTreeMap<u64, String>,
}

impl Desk {
    fn of(shop: &Shop) -> Self {
        Self {
            locks: Arc::new(shop.locks.clone()),
            names: vec!["Ada".into(), "Ben".into()],
            orders: BTreeMap::from([(1, "tea".into())]),
        }
    }

    #[locked(client = self.locks, key = "desk")]
    pub fn borrows(&self, at: usize) -> Boxed<&str> {
        assert_locked("desk");
        Ok(self.names.get(at).ok_or("no such name")?)
    }

    /// A parameter that the key borrows can be used mutably in the body.
    #[locked(client = self.locks, key = "desk:{self.names.len()}")]
    pub(crate) fn changes(&mut self, name: &str) -> Boxed<&mut String> {
        assert_locked("desk:2");
        self.names.push(name.to_owned());
        self.names.last_mut().ok_or_else(|| "no such name".into())
    }

    #[locked(client = self.locks, key = "desk:{at}")]
    fn entry(&mut self, at: u64, mut parts: Vec<&str>) -> Boxed<&mut String> {
        assert_locked(&format!("desk:{at}"));
        parts.reverse();
        let entry = self.orders.entry(at).or_default();
        for part in parts {
            entry.push_str(part);
        }
        Ok(entry)
    }

    #[locked(client = self.locks, key = "desk")]
    fn consumes(self) -> Boxed<Vec<String>> {
        assert_locked("desk");
        Ok(self.names)
    }

    #[locked(client = self.locks, key = "desk")]
    fn shared(self: Rc<Self>) -> Boxed<usize> {
        assert_locked("desk");
        Ok(Rc::strong_count(&self))
    }

    #[locked(client = self.locks, key = "desk")]
    fn lists(&self) -> Boxed<impl Iterator<Item = &str> + Debug> {
        assert_locked("desk");
        Ok(self
            .names
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .into_iter())
    }
}

#[locked(client = locks, key = "longest:{}", prefix = "shapes")]
#[cfg(any())]
fn left_out() {}

/// Returns the longer one.
#[inline]
#[must_use = "or it need not be found"]
#[locked(client = locks, key = "longest:{left}:{right}")]
pub fn longest<'a, T>(locks: &LockClient, left: &'a T, right: &'a T) -> Boxed<&'a T>
where
    T: Display + ?Sized + AsRef<str>,
{
    assert_locked(&format!("longest:{left}:{right}"));
    if left.as_ref().len() >= right.as_ref().len() {
        return Ok(left);
    }
    Ok(right)
}

struct Pair<const N: usize> {
    second: u32,
    _more: [u32; N],
}

#[locked(client = locks.borrow(), key = "sum:{N}:{first}:{second}")]
fn sum<const N: usize>(
    locks: impl Borrow<LockClient>,
    (first, Pair { second, .. }): (u32, Pair<N>),
    add: impl Fn(u32, u32) -> u32,
) -> Boxed<u32> {
    assert_locked(&format!("sum:{N}:{first}:{second}"));
    drop(locks);
    Ok(add(first, second))
}

#[locked(client = locks, key = "attributes")]
fn inner_attributes(locks: &LockClient) -> Boxed<u32> {
    #![allow(unused_variables)]
    let unused_on_purpose = 1;
    assert_locked("attributes");
    Ok(7)
}

/// The body sees no names of the generated code.
#[locked(client = call, key = "names")]
fn names(call: &LockClient) -> Boxed<u32> {
    assert_locked("names");
    let locks: &LockClient = call;
    assert_eq!(locks.stats().acquisitions, 1);
    Ok(7)
}

/// A `return` in a macro returns from the body.
#[locked(client = locks, key = "macro")]
fn by_macro(locks: &LockClient, good: bool) -> Boxed<u32> {
    macro_rules! ensure {
        ($condition:expr) => {
            if !$condition {
                return Err("it is not so".into());
            }
        };
    }
    assert_locked("macro");
    ensure!(good);
    Ok(7)
}

/// A macro passes its fragments on in invisible groups. A key in such a group is still a format.
macro_rules! written_by_a_macro {
    (
        $visibility:vis $name:ident($order:ident),
        $key:expr, $lease:literal, $wait:expr, $result:ty, $body:block
    ) => {
        #[locked(client = locks, key = $key, lease = $lease, wait = $wait)]
        $visibility fn $name(locks: &LockClient, $order: u64) -> $result $body
    };
}

written_by_a_macro!(pub(crate) written(order), "written:{order}", "30s", "10s", Boxed<u32>, {
    assert_locked("written:7");
    Ok(7)
});

trait Settles {
    fn locks(&self) -> &LockClient;

    fn settle(&self, order: u64) -> Boxed<u64>;

    #[locked(client = self.locks(), key = "settle:all")]
    fn settle_all(&self, orders: &[u64]) -> Boxed<u64> {
        assert_locked("settle:all");
        let settled: Boxed<Vec<u64>> = orders.iter().map(|&order| self.settle(order)).collect();
        Ok(settled?.iter().sum())
    }
}

impl Settles for Desk {
    fn locks(&self) -> &LockClient {
        &self.locks
    }

    #[locked(client = self.locks, key = "settle:{order}")]
    fn settle(&self, order: u64) -> Boxed<u64> {
        assert_locked(&format!("settle:{order}"));
        Ok(order)
    }
}

#[test]
fn methods_keep_their_shape() {
    let shop = Shop::open();
    let mut desk = Desk::of(&shop);
    assert_eq!(desk.borrows(1).unwrap(), "Ben");
    assert_eq!(desk.borrows(9).unwrap_err().to_string(), "no such name");
    desk.changes("Cy").unwrap().push('d');
    assert_eq!(desk.names, ["Ada", "Ben", "Cyd"]);
    assert_eq!(desk.entry(1, vec!["c", "b"]).unwrap(), "teabc");
    assert_eq!(desk.lists().unwrap().count(), 3);
    assert_eq!(desk.settle_all(&[1, 2]).unwrap(), 3);
    assert_eq!(desk.consumes().unwrap().len(), 3);
    assert_eq!(Rc::new(Desk::of(&shop)).shared().unwrap(), 1);
    let keys: u32 = shop.server.ask(&redis::cmd("DBSIZE"));
    assert_eq!(keys, 0, "everything is released");
}

#[test]
fn free_functions_keep_their_shape() {
    let shop = Shop::open();
    let locks = &shop.locks;
    assert_eq!(names(locks).unwrap(), 7);
    assert_eq!(longest(locks, "tea", "cake").unwrap(), "cake");
    let add = |left, right| left + right;
    let pair = Pair {
        second: 2,
        _more: [0; 3],
    };
    assert_eq!(sum(locks.clone(), (1, pair), add).unwrap(), 3);
    assert_eq!(inner_attributes(locks).unwrap(), 7);
    assert_eq!(written(locks, 7).unwrap(), 7);
    assert_eq!(by_macro(locks, true).unwrap(), 7);
    assert_eq!(
        by_macro(locks, false).unwrap_err().to_string(),
        "it is not so"
    );
    assert_not_held(current_lock().check());
}

/// The attribute looks only at the name of the return type, so an alias of `Result` works.
#[test]
fn any_error_that_implements_from_works() {
    type Outcome = Result<CurrentLock, Text>;

    #[derive(Debug)]
    struct Text(String);

    impl From<Error> for Text {
        fn from(error: Error) -> Self {
            Self(error.to_string())
        }
    }

    #[locked(client = locks, key = key)]
    fn outcome(locks: &LockClient, key: &str) -> Outcome {
        Ok(current_lock())
    }

    let shop = Shop::open();
    assert_eq!(outcome(&shop.locks, "it").unwrap().name(), "it");
    let Text(text) = outcome(&shop.locks, "").unwrap_err();
    assert!(text.contains("name"), "{text}");
}
