//! What other programs see in Redis, byte for byte, and how their keys are handled.

mod foreign;
mod layout;
mod numbers;
mod other_kinds;
pub mod permissions;
mod scripts;

use std::time::Duration;

use leasehold::Lease;

use crate::support::{child, client};

/// The role: acquires a lock and lives until it gets a line or is killed.
pub fn hold(arguments: &[&str]) {
    let &[url, name] = arguments else {
        panic!("{arguments:?}")
    };
    let client = client(url);
    let lock = client.reentrant_lock(name);
    assert!(
        lock.try_lock(Duration::from_secs(60), Lease::RENEWED)
            .unwrap()
    );
    child::send_line("held");
    child::read_line();
    child::send_line(match lock.unlock() {
        Ok(()) => "released".to_owned(),
        Err(error) => error.to_string(),
    });
}
