//! Parameters are dropped while the lock is held, whatever the body does with them.

#![warn(clippy::pedantic)]
#![deny(unfulfilled_lint_expectations, unused)]
#![allow(
    clippy::missing_errors_doc,
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "they are about the functions, with the attribute or without"
)]

use std::cell::RefCell;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold::{LockClient, current_lock, locked};

use crate::shop::Shop;

/// Does its last work when it is dropped, as transactions of databases do.
struct Transaction<'a> {
    id: u32,
    shop: &'a Shop,
    ends: &'a Ends,
}

/// What was dropped, in order, and whether the lock was held then.
type Ends = RefCell<Vec<(u32, bool)>>;

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let held = self.shop.has("order") && current_lock().check().is_ok();
        self.ends.borrow_mut().push((self.id, held));
    }
}

impl fmt::Display for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("order")
    }
}

type Done = leasehold::Result<()>;

#[locked(client = locks, key = "order")]
fn unused(locks: &LockClient, _one: Transaction, _two: Transaction) -> Done {
    Ok(())
}

#[locked(client = locks, key = "{one}")]
fn used_by_the_key(
    locks: &LockClient,
    one: Transaction,
    #[allow(unused_variables)] two: Transaction,
) -> Done {
    Ok(())
}

#[locked(client = locks, key = "order")]
fn used_by_a_field(locks: &LockClient, one: Transaction, two: Transaction) -> Done {
    assert_eq!((one.id, two.id), (1, 2));
    Ok(())
}

#[locked(client = locks, key = "order")]
fn changed(locks: &LockClient, mut one: Transaction, two: Transaction) -> Done {
    one.id += 1;
    assert_eq!(one.id, two.id - 1);
    Ok(())
}

#[locked(client = locks, key = "order")]
fn on_a_condition(
    locks: &LockClient,
    #[cfg(not(any()))] _one: Transaction,
    #[cfg(any())] _none: Nothing,
    _two: Transaction,
) -> Done {
    Ok(())
}

struct Pair<'a> {
    two: Transaction<'a>,
    _more: u8,
}

#[locked(client = locks, key = "order")]
fn of_patterns(
    locks: &LockClient,
    (_one, _): (Transaction, u8),
    Pair { two: _two, .. }: Pair,
) -> Done {
    Ok(())
}

impl Transaction<'_> {
    #[locked(client = self.shop.locks, key = "order")]
    fn method(self, _two: Transaction) -> Done {
        Ok(())
    }
}

#[test]
fn parameters_are_dropped_under_the_lock_in_reverse_order() {
    let shop = Shop::open();
    let in_patterns = |locks: &LockClient, one: Transaction, two: Transaction| {
        of_patterns(locks, (one, 0), Pair { two, _more: 0 })
    };
    let to_be_changed = |locks: &LockClient, mut one: Transaction, two: Transaction| {
        one.id = 0;
        changed(locks, one, two)
    };
    let as_a_method = |_: &LockClient, one: Transaction, two: Transaction| one.method(two);
    for (what, function) in [
        (
            "unused",
            &unused as &dyn Fn(&LockClient, Transaction, Transaction) -> Done,
        ),
        ("used by the key", &used_by_the_key),
        ("used by a field", &used_by_a_field),
        ("changed", &to_be_changed),
        ("on a condition", &on_a_condition),
        ("of patterns", &in_patterns),
        ("a method's", &as_a_method),
    ] {
        let ends = Ends::default();
        let transaction = |id| Transaction {
            id,
            shop: &shop,
            ends: &ends,
        };
        function(&shop.locks, transaction(1), transaction(2)).unwrap();
        assert_eq!(*ends.borrow(), [(2, true), (1, true)], "{what}");
    }
}

/// Moving parameters into the body is no use of them. The names are also used in the code of the
/// attribute.
#[expect(unused_variables, reason = "the compiler still warns")]
#[locked(client = locks, key = "order")]
fn forgotten(locks: &LockClient, client: u64) -> Done {
    Ok(())
}

#[expect(unused_variables, reason = "the compiler still warns")]
#[locked(client = locks, key = "order")]
fn forgotten_in_a_pattern(locks: &LockClient, (_, wait): (u8, u8)) -> Done {
    Ok(())
}

#[locked(client = locks, key = "order:{id}")]
fn expected(
    locks: &LockClient,
    #[expect(unused_variables, reason = "of one parameter")] client: u64,
    #[expect(unused, reason = "of one name of two")] (id, wait): (u8, u8),
    #[expect(
        unused_mut,
        reason = "the warning is about the parameter, which is used"
    )]
    mut lease: u8,
) -> Done {
    assert_eq!(lease, 3);
    Ok(())
}

/// A guard must not be dropped early by `let _`.
#[locked(client = locks, key = "order:{counter}")]
fn guarded(locks: &LockClient, counter: MutexGuard<u32>) -> Done {
    Ok(())
}

#[test]
fn no_parameter_causes_a_warning() {
    let shop = Shop::open();
    forgotten(&shop.locks, 7).unwrap();
    forgotten_in_a_pattern(&shop.locks, (1, 2)).unwrap();
    expected(&shop.locks, 7, (1, 2), 3).unwrap();
    let counter = Mutex::new(7);
    let counter = counter.lock().unwrap_or_else(PoisonError::into_inner);
    guarded(&shop.locks, counter).unwrap();
}
