//! The thread of the server: waits for connections, commands and orders of the test.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::data::SessionId;
use super::server::Server;
use super::session::Session;

/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(1);

/// What the handle of the server asks the thread to do.
pub(super) type Order = Box<dyn FnOnce(&mut Server) + Send>;

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
    pub(super) fn run(&self, server: &mut Server) -> io::Result<()> {
        loop {
            let (is_woken, is_accepting, readable) = self.wait(server)?;
            if is_woken && !self.execute_orders(server)? {
                return Ok(());
            }
            if is_accepting {
                self.accept(server);
            }
            for id in readable {
                let received = server.sessions.get_mut(&id).map(Session::receive);
                server.execute_received(id);
                if let Some(Err(_)) = received {
                    server.close(id);
                }
            }
            send_replies(server);
        }
    }

    /// Waits until something happens, or a reply is due. Returns whether there are orders, whether
    /// there is a new connection, and the connections on which something has arrived.
    fn wait(&self, server: &Server) -> io::Result<(bool, bool, Vec<SessionId>)> {
        let now = Instant::now();
        let mut polled = vec![
            PollFd::new(&self.waker, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        let mut next: Option<Instant> = None;
        for session in server.sessions.values() {
            let mut flags = PollFlags::IN;
            match session.next_reply() {
                // The socket had no room for it.
                Some(due) if due <= now => flags |= PollFlags::OUT,
                Some(due) => next = Some(next.map_or(due, |next| next.min(due))),
                None => {}
            }
            polled.push(PollFd::new(&session.stream, flags));
        }
        let time = next.map(|due| Timespec::try_from(due.duration_since(now)));
        let time = time.transpose().map_err(io::Error::other)?;
        match poll(&mut polled, time.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, false, Vec::new())),
            Err(error) => return Err(error.into()),
        }
        let happened = |at: usize| !polled[at].revents().is_empty();
        let sessions = server.sessions.keys().enumerate();
        let readable = sessions.filter(|&(at, _)| happened(at + 2));
        Ok((
            happened(0),
            happened(1),
            readable.map(|(_, &id)| id).collect(),
        ))
    }

    /// False if the handle is dropped.
    fn execute_orders(&self, server: &mut Server) -> io::Result<bool> {
        loop {
            match self.waker.recv(&mut [0]) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.orders.try_recv() {
                Ok(order) => order(server),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    fn accept(&self, server: &mut Server) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The peer has closed it already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                // For example too many open files, which may be temporary.
                Err(_) => {
                    thread::sleep(PAUSE);
                    return;
                }
            };
            if !server.is_available() {
                continue;
            }
            let id = server.next_session;
            server.next_session += 1;
            if let Ok(session) = Session::new(id, stream) {
                server.sessions.insert(id, session);
            }
        }
    }
}

fn send_replies(server: &mut Server) {
    let now = Instant::now();
    let mut closed = Vec::new();
    for (&id, session) in &mut server.sessions {
        if session.send(now).is_err() {
            closed.push(id);
        }
    }
    closed.into_iter().for_each(|id| server.close(id));
}
