//! A lock written directly with EVALSHA, by clients that wait for one another.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    contention::Enter,
    raw_client::{LEASE_MILLIS, RawClient, channel},
    server::address_of,
    time,
};

/// A connection that is subscribed to the channel of a lock.
pub struct Listener(TcpStream);

impl Listener {
    pub fn new(url: &str, key: &str) -> Self {
        let mut stream = TcpStream::connect(address_of(url)).expect("the server is up");
        let channel = channel(key);
        let length = channel.len();
        let request = format!("*2\r\n$9\r\nSUBSCRIBE\r\n${length}\r\n{channel}\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut listener = Self(stream);
        assert!(listener.wait(Duration::from_secs(10)), "no subscription");
        listener
    }

    /// Waits for a message, and receives all that have arrived; false if there is none in this
    /// time.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        let limited = self.0.set_read_timeout(Some(at_most));
        limited.expect("a socket has a time limit");
        let received = self.0.read(&mut [0; 4096]);
        assert_ne!(received.as_ref().ok(), Some(&0), "the server is up");
        received.is_ok()
    }
}

/// A client that tries when a message arrives or the reported lease is over, and never yields:
/// after its release it tries again at once.
struct RawWaiter {
    raw: RawClient,
    listener: Listener,
}

impl RawWaiter {
    fn new(url: &str, key: &str, number: usize) -> Self {
        let client = redis::Client::open(url).expect("a valid URL");
        let connection = client.get_connection().expect("the server is up");
        let process = std::process::id();
        let owner = format!("{process:08x}-0000-4000-8000-000000000000:{number}");
        Self {
            raw: RawClient::on(connection, &owner),
            listener: Listener::new(url, key),
        }
    }

    fn acquire(&mut self, key: &str) {
        while let Some(left) = self.raw.lease_of_another(key, LEASE_MILLIS) {
            self.listener.wait(left);
        }
    }
}

/// A client for each of `threads` threads that lock and unlock `key`.
pub fn enter_raw(url: &str, key: &str, threads: usize) -> Box<Enter<'static>> {
    let waiters = (0..threads).map(|number| RawWaiter::new(url, key, number));
    let (waiters, key) = (Mutex::new(waiters.collect::<Vec<_>>()), key.to_owned());
    Box::new(move |work| {
        let waiter = waiters.lock().pop();
        let mut waiter = waiter.expect("no more threads than that");
        let wait = time(|| waiter.acquire(&key));
        work();
        waiter.raw.release(&key);
        waiters.lock().push(waiter);
        wait
    })
}
