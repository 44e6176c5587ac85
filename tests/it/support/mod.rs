//! Support for all tests: servers, processes, times.

pub mod certificates;
pub mod child;
mod child_process;
#[allow(dead_code, reason = "other programs use the rest")]
pub mod deployment;
pub mod fake_server;
#[allow(dead_code, reason = "the tests of the command use the rest")]
pub mod faked_clock;
pub mod logs;
pub mod outcome;
pub mod prelude;
pub mod process;
pub mod proxy;
pub mod server;
pub mod timing;
pub mod traffic;
mod unique;

use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::{Lease, Lock, LockClient, LockClientBuilder};

use timing::{LEASE, SOON};
pub use unique::unique;

/// A builder with leases that are short enough for a test.
pub fn builder(url: &str) -> LockClientBuilder {
    LockClient::builder(url).watchdog_lease(LEASE.get())
}

pub fn client(url: &str) -> LockClient {
    builder(url).build().expect("the settings are valid")
}

/// A lease that outlasts the test: a waiter that gets the lock before its end was woken.
pub fn long() -> Lease {
    Lease::fixed(SOON.get() * 6)
}

/// Acquires the lock and releases it.
#[track_caller]
pub fn pair(lock: &dyn Lock) {
    lock.acquire().unwrap().unlock().unwrap();
}

/// Acquires the lock without waiting, and releases it. False if it was not free.
#[track_caller]
pub fn is_free(lock: &dyn Lock) -> bool {
    let guard = lock.try_acquire_now().unwrap();
    guard.map(|guard| guard.unlock().unwrap()).is_some()
}

/// Asserts that a value has this form, and shows it otherwise.
macro_rules! assert_matches {
    ($value:expr, $pattern:pat $(if $guard:expr)? $(,)?) => {
        match &$value {
            $pattern $(if $guard)? => {}
            other => panic!("{other:?}"),
        }
    };
    ($value:expr, $pattern:pat $(if $guard:expr)?, $($message:tt)+) => {
        match &$value {
            $pattern $(if $guard)? => {}
            other => panic!("{}: {other:?}", format_args!($($message)+)),
        }
    };
}
pub(crate) use assert_matches;

/// A connection of the test to the server at this address.
pub fn connect(url: &str) -> redis::Connection {
    let client = redis::Client::open(url).expect("the address is valid");
    client.get_connection().expect("the server replies")
}

/// Runs one command, whose words are separated by spaces.
#[track_caller]
pub fn run(redis: &mut redis::Connection, command: &str) {
    let reply = server::queries::command(command).exec(redis);
    reply.unwrap_or_else(|error| panic!("{command}: {error}"));
}

/// The server's log of refused commands, except for the name of the connections, which the locks do
/// not need.
pub fn refused(server: &server::Server) -> Vec<String> {
    let log: Vec<redis::Value> = server.ask(redis::cmd("ACL").arg("LOG"));
    let entries = log.iter().map(|entry| format!("{entry:?}"));
    // Redis 6 logs the command alone.
    let name = if server::program::is_redis_7() {
        "client|setname"
    } else {
        "\"client\""
    };
    let is_of_locks = |entry: &String| !entry.contains(name);
    entries.filter(is_of_locks).collect()
}

/// Runs `work` on another thread, which is another owner of a lock.
pub fn on_another_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        other
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Sets a flag when it is dropped, so that other threads end also after a panic.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
