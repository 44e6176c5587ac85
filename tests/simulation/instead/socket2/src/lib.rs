//! What the library uses of `socket2`, in the network of the simulation.

use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::time::Duration;

use leasehold_simulation_world::network::{self, SocketId};
use leasehold_simulation_world::time;
use rustix::event::HasSocket;

pub use real::{Domain, Protocol, SockAddr, TcpKeepalive, Type};

/// A socket for TCP.
#[derive(Debug)]
pub struct Socket(SocketId);

impl Socket {
    /// A new socket.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn new(_: Domain, _: Type, _: Option<Protocol>) -> io::Result<Self> {
        Ok(Self(network::socket()))
    }

    /// Connects within this time.
    ///
    /// # Errors
    ///
    /// If no service listens there, or the time is over.
    pub fn connect_timeout(&self, address: &SockAddr, time: Duration) -> io::Result<()> {
        let address = address.as_socket().ok_or(ErrorKind::Unsupported)?;
        network::connect(self.0, address, time::nanos(time))
    }

    /// The simulation has no such sockets.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn connect(&self, _: &SockAddr) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Does nothing.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn set_tcp_nodelay(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn set_tcp_keepalive(&self, _: &TcpKeepalive) -> io::Result<()> {
        Ok(())
    }

    /// Limits the waits of reads.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        network::set_read_timeout(self.0, time.map(time::nanos));
        Ok(())
    }

    /// Does nothing: no write waits.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn set_write_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    /// Sends what there is room for.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn send_with_flags(&self, bytes: &[u8], _: i32) -> io::Result<usize> {
        network::send(self.0, bytes)
    }

    /// Ends the connection, or one direction.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        network::shut_down(self.0, how != Shutdown::Write);
        Ok(())
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        network::receive(self.0, buffer, true)
    }
}

impl HasSocket for Socket {
    fn id(&self) -> SocketId {
        self.0
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        network::close(self.0);
    }
}
