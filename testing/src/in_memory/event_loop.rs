//! The thread of the server: waits for connections, commands and orders of the test.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::host::Host;
use super::server::SessionId;

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(1);

/// What the handle of the server asks the thread to do.
pub(super) type Order = Box<dyn FnOnce(&mut Host) + Send>;

/// What the thread waits for.
pub(super) struct EventLoop {
    pub(super) listener: TcpListener,
    /// Gets a datagram after each order.
    pub(super) waker: UdpSocket,
    /// Disconnected when the handle is dropped.
    pub(super) orders: Receiver<Order>,
}

impl EventLoop {
    /// Runs until the handle is dropped. Some errors of the system end it, too.
    pub(super) fn run(&self, host: &mut Host) -> io::Result<()> {
        loop {
            let (is_woken, is_accepting, readable) = self.wait(host)?;
            if is_woken && !self.execute_orders(host)? {
                return Ok(());
            }
            if is_accepting {
                self.accept(host);
            }
            readable.into_iter().for_each(|id| host.receive(id));
            host.send();
        }
    }

    /// Waits until something happens, or a reply is due. Returns whether there are orders, whether
    /// there is a new connection, and the connections on which something has arrived.
    fn wait(&self, host: &Host) -> io::Result<(bool, bool, Vec<SessionId>)> {
        let now = Instant::now();
        let mut polled = vec![
            PollFd::new(&self.waker, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        let mut next: Option<Instant> = None;
        for connection in host.connections.values() {
            let mut flags = PollFlags::IN;
            match connection.next_reply() {
                // The socket had no room for it.
                Some(due) if due <= now => flags |= PollFlags::OUT,
                Some(due) => next = Some(next.map_or(due, |next| next.min(due))),
                None => {}
            }
            polled.push(PollFd::new(&connection.stream, flags));
        }
        let time = next.map(|due| Timespec::try_from(due.duration_since(now)));
        let time = time.transpose().map_err(io::Error::other)?;
        match poll(&mut polled, time.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, false, Vec::new())),
            Err(error) => return Err(error.into()),
        }
        let happened = |at: usize| !polled[at].revents().is_empty();
        let connections = host.connections.keys().enumerate();
        let readable = connections.filter(|&(at, _)| happened(at + 2));
        Ok((
            happened(0),
            happened(1),
            readable.map(|(_, &id)| id).collect(),
        ))
    }

    /// False if the handle is dropped.
    fn execute_orders(&self, host: &mut Host) -> io::Result<bool> {
        loop {
            match self.waker.recv(&mut [0]) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.orders.try_recv() {
                Ok(order) => order(host),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    fn accept(&self, host: &mut Host) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => host.open(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer has closed it already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // For example too many open files, which may be temporary.
                Err(_) => {
                    thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }
}
