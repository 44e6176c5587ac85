//! The public names, their traits, and what the compiler forbids.

mod debug;
mod methods;
mod run;

use crate::support::proxy::repository;

use leasehold::testing::{Fault, FaultProxy, Gate, InMemoryRedis};
use leasehold::{
    Condition, CountDownLatch, Credentials, CurrentLock, Error, FairLock, FencedGuard, FencedLock,
    Interrupt, Lease, LeasedSemaphore, Lock, LockClient, LockClientBuilder, LockEvent, LockGuard,
    LockStatus, MultiLock, OwnedGuard, PermitGuard, ReadLock, ReadWriteLock, RedLock,
    ReentrantLock, Semaphore, SemaphoreGuard, Stats, WriteLock,
};

/// Every public name. A change here is a change of the public API.
const PUBLIC: &str = "\
    Cause Condition CountDownLatch Credentials CurrentLock Error FairLock FencedGuard \
    FencedLock Hint Holder Interrupt Lease LeasedSemaphore Lock LockClient LockClientBuilder \
    LockEvent LockGuard LockStatus LostReason MultiLock OwnedGuard Permission PermitGuard \
    ReadLock ReadWriteLock RedLock ReentrantLock Result RunError Semaphore SemaphoreGuard \
    Stats Subscription TimeLimit WriteLock crossbeam_channel current_lock locked redis \
    set_default_client";

/// The declarations of the module `admin`.
const ADMIN: &[&str] = &[
    "pub fn check_name",
    "pub fn deployment",
    "pub fn server_of",
    "pub fn servers",
    "pub struct Connection",
    "pub struct LockKeys",
    "pub struct Server",
    "pub use crate::client::{lock_kinds, lock_of_kind}",
    "pub use crate::topology::{LookUpFailed, RouteError}",
    "pub use crate::transport::server_error::ServerError",
    "pub use holder::ConnectedClients",
    "pub use redis",
];

/// The names in the module `testing`.
const TESTING: &str = "\
    Fault FaultProxy Gate InMemoryRedis ProxiedRequest with_default_client";

/// The names that these statements export and document, in order.
fn exported(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for statement in code.split(';') {
        let Some((before, path)) = statement.split_once("pub use ") else {
            continue;
        };
        if before.contains("#[doc(hidden)]") {
            continue;
        }
        let last = path.rsplit("::").next().unwrap_or(path);
        let last = last.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
        let last = last.split(',').map(str::trim);
        names.extend(last.filter(|name| !name.is_empty()));
    }
    names.sort_unstable();
    names
}

#[test]
fn the_public_names_are_as_listed() {
    let root = repository();
    let lib = std::fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let (names, testing) = lib.split_once("pub mod testing {").unwrap();
    assert_eq!(exported(names).join(" "), PUBLIC);
    let (testing, _) = testing.split_once("\n}").unwrap();
    assert_eq!(exported(testing).join(" "), TESTING);
    let modules = lib.lines().filter(|line| line.starts_with("pub mod"));
    let modules: Vec<&str> = modules.collect();
    assert_eq!(
        modules,
        ["pub mod admin;", "pub mod testing {", "pub mod guide {"],
        "the others are private"
    );
    let admin = std::fs::read_to_string(root.join("src/admin.rs")).unwrap();
    let declared = admin.lines().filter(|line| line.starts_with("pub "));
    let mut declared: Vec<&str> = declared
        .map(|line| {
            line.split(['(', ';'])
                .next()
                .unwrap_or(line)
                .trim_end_matches(" {")
        })
        .collect();
    declared.sort_unstable();
    assert_eq!(declared, ADMIN);
}

#[test]
fn public_types_are_send_and_sync() {
    fn shared<T: Send + Sync + 'static>() {}
    fn cloned<T: Clone + std::fmt::Debug>() {}
    macro_rules! all {
        ($check:ident: $($type:ty),+) => { $($check::<$type>();)+ };
    }
    all! { shared:
        LockClient, LockClientBuilder, ReentrantLock, FencedLock, MultiLock, RedLock, FairLock,
        ReadWriteLock, ReadLock, WriteLock, Semaphore, LeasedSemaphore, CountDownLatch, Condition,
        OwnedGuard, PermitGuard, SemaphoreGuard, Box<dyn Lock>, Interrupt, Error, LockEvent,
        FaultProxy, Gate, InMemoryRedis,
        Credentials
    }
    all! { cloned:
        Fault, Gate, InMemoryRedis, LockClient, LockClientBuilder, ReentrantLock, FencedLock,
        MultiLock, RedLock, FairLock, ReadWriteLock, ReadLock, WriteLock, Semaphore,
        LeasedSemaphore, CountDownLatch, Condition, Interrupt, Lease, LockEvent, LockStatus, Stats,
        Credentials
    }
}

/// Whether `T` is `Send`. The constant of the inherent `impl`, where its bound holds, takes
/// precedence over the constant of the trait.
struct Sent<T>(std::marker::PhantomData<T>);

trait Unsent {
    const POSSIBLE: bool = false;
}

impl<T> Unsent for Sent<T> {}

impl<T: Send> Sent<T> {
    const POSSIBLE: bool = true;
}

/// Not `Send`, but `Sync`.
#[test]
fn a_guard_is_sync_but_not_send() {
    fn shared<T: Sync>() {}
    shared::<LockGuard>();
    shared::<FencedGuard>();
    const {
        assert!(!Sent::<LockGuard>::POSSIBLE);
        assert!(!Sent::<FencedGuard>::POSSIBLE);
        assert!(!Sent::<CurrentLock>::POSSIBLE);
        assert!(
            Sent::<ReentrantLock>::POSSIBLE,
            "the check recognises a type that is Send"
        );
    }
}
