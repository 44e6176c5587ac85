//! Logs which client a worker has.

use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::LockClient;

use crate::clock;
use crate::log::{Event, Log};

/// Logs the id of the client, which a lock of its own shows, unless the worker is to stop before.
pub fn log(client: &LockClient, process: u32, log: &Log, stop: &AtomicBool) {
    let name = format!("worker:{process}");
    let id = || {
        let _guard = client.reentrant_lock(&name).acquire().ok()?;
        let owner = client.inspect(&name).ok()?.owner?;
        Some(owner.split(':').next()?.to_owned())
    };
    while !stop.load(Ordering::Relaxed) {
        if let Some(id) = id() {
            return log.write(clock::now(), 0, Event::Client { id });
        }
    }
}
