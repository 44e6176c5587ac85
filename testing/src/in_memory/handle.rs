//! The thread of the server, and the orders that it gets from a test.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, bounded, unbounded};

use super::event_loop::{EventLoop, Order};
use super::host::Host;
use crate::known_scripts::KnownScripts;

/// The thread of the server. Dropping the handle ends it.
pub(super) struct Handle {
    pub(super) address: SocketAddr,
    orders: Option<Sender<Order>>,
    /// Wakes the thread.
    waker: UdpSocket,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    pub(super) fn start(known: KnownScripts) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let waker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        waker.connect(waker.local_addr()?)?;
        waker.set_nonblocking(true)?;
        let (orders, ordered) = unbounded();
        let event_loop = EventLoop {
            listener,
            waker: waker.try_clone()?,
            orders: ordered,
        };
        let (started, is_started) = bounded(1);
        let thread = thread::Builder::new().name("leasehold-in-memory".into());
        let thread = thread.spawn(move || match Host::new(known) {
            Ok(mut host) => {
                let _ = started.send(Ok(()));
                // A test must not go on without its server: see `with`.
                let ended = event_loop.run(&mut host);
                assert!(ended.is_ok(), "the in-memory server has failed: {ended:?}");
            }
            Err(error) => drop(started.send(Err(error.to_string()))),
        })?;
        let handle = Self {
            address,
            orders: Some(orders),
            waker,
            thread: Some(thread),
        };
        match is_started.recv() {
            Ok(Ok(())) => Ok(handle),
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(_) => Err(io::Error::other("its thread has ended")),
        }
    }

    /// Executes this on the thread of the server, and waits for that. Panics if the thread has
    /// ended.
    pub(super) fn with(&self, work: impl FnOnce(&mut Host) + Send + 'static) {
        let (done, is_done) = bounded(1);
        let order: Order = Box::new(move |host| {
            work(host);
            let _ = done.send(());
        });
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
        self.wake();
        let is_done = is_done.recv().is_ok();
        assert!(
            is_done,
            "the in-memory server has ended: its thread has panicked"
        );
    }

    fn wake(&self) {
        // If there is no room for the datagram, those that are there wake the thread.
        let _ = self.waker.send(&[0]);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.orders.take());
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the in-memory server has ended")]
    fn a_test_does_not_go_on_without_its_server() {
        let handle = Handle::start(KnownScripts::default()).unwrap();
        handle.with(|_| panic!("on the thread of the server"));
    }
}
