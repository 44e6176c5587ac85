//! Support: a Redis server, clients, and queries to both.

use leasehold::{Error, LockClient};

use crate::servers::server::Server;
use crate::servers::timing::{Millis, eventually};

/// A server with a client whose leases are longer than the tests, also on a busy machine.
pub struct Shop {
    pub server: Server,
    pub locks: LockClient,
}

impl Shop {
    pub fn open() -> Self {
        let server = Server::start();
        let locks = client(&server.url());
        Self { server, locks }
    }

    /// With a client that detects a loss within two thirds of `lease`.
    pub fn with_leases(lease: Millis) -> Self {
        let mut shop = Self::open();
        let builder = LockClient::builder(&shop.server.url()).watchdog_lease(lease.get());
        shop.locks = builder.build().expect("the settings are valid");
        shop
    }

    /// A client as another process has it.
    pub fn another_client(&self) -> LockClient {
        client(&self.server.url())
    }

    pub fn has(&self, key: &str) -> bool {
        self.server.ask(redis::cmd("EXISTS").arg(key))
    }

    pub fn delete(&self, key: &str) {
        let deleted: u32 = self.server.ask(redis::cmd("DEL").arg(key));
        assert_eq!(deleted, 1, "{key} is held");
    }

    /// In milliseconds; negative if there is no key or no expiry.
    pub fn time_to_live(&self, key: &str) -> i64 {
        self.server.ask(redis::cmd("PTTL").arg(key))
    }

    /// Waits until another client waits for the lock.
    #[track_caller]
    pub fn await_waiter(&self, key: &str) {
        let line = format!("leasehold_line:{{{key}}}");
        eventually("a client to wait", || {
            self.server.ask::<u32>(redis::cmd("ZCARD").arg(&line)) > 0
        });
    }
}

pub fn client(url: &str) -> LockClient {
    LockClient::connect(url).expect("the settings are valid")
}

#[track_caller]
pub fn assert_held_by_another<T>(result: leasehold::Result<T>, name: &str) {
    match result {
        Err(Error::HeldByAnother { lock, .. }) => assert_eq!(lock, name),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{name} was free"),
    }
}

#[track_caller]
pub fn assert_not_held<T>(result: leasehold::Result<T>) {
    match result {
        Err(Error::NotHeld { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is held"),
    }
}
