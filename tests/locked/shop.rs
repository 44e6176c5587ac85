//! Support: a Redis server, clients, and queries to both.

use std::sync::mpsc::{self, Receiver, Sender};

use leasehold::{Error, LockClient};

use crate::servers::server::Server;
use crate::servers::timing::{Millis, SOON, eventually};

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

/// Stops a body in the middle, until the test lets it continue.
pub fn gate() -> (Within, Outside) {
    let (entered, is_in) = mpsc::channel();
    let (go_on, may_leave) = mpsc::channel();
    (Within { entered, may_leave }, Outside { is_in, go_on })
}

pub struct Within {
    entered: Sender<()>,
    may_leave: Receiver<()>,
}

impl Within {
    pub fn stop(&self) {
        self.entered.send(()).expect("the test listens");
        self.may_leave
            .recv_timeout(SOON.get())
            .expect("the test lets it go on");
    }
}

pub struct Outside {
    is_in: Receiver<()>,
    go_on: Sender<()>,
}

impl Outside {
    #[track_caller]
    pub fn until_it_is_in(&self) {
        self.is_in
            .recv_timeout(SOON.get())
            .expect("the body is run");
    }

    pub fn let_it_go_on(&self) {
        self.go_on.send(()).expect("the body waits");
    }
}
