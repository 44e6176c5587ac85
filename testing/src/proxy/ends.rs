//! The two ends of a connection through the proxy, and the ways to close them.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::SockRef;

/// The longest write, if the peer does not read.
const LONGEST_WRITE: Duration = Duration::from_secs(5);

/// The connection to a client.
///
/// A reset is sent only when the last descriptor is closed. This one is taken and closed here. The
/// shutdown ends the read of the reader, which then closes its own descriptor.
#[derive(Debug)]
pub(super) struct ClientEnd(Mutex<Option<Arc<TcpStream>>>);

impl ClientEnd {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        prepare(&stream)?;
        Ok(Self(Mutex::new(Some(Arc::new(stream)))))
    }

    /// Does nothing if the client is gone. It writes without the mutex, so that it does not delay
    /// the end of this connection or of others; `cut` ends it, and a reset is sent after it.
    pub(super) fn write(&self, bytes: &[u8]) {
        let stream = self.0.lock().clone();
        if stream.is_some_and(|stream| (&*stream).write_all(bytes).is_err()) {
            self.0.lock().take();
        }
    }

    /// FIN.
    pub(super) fn cut(&self) {
        if let Some(stream) = self.0.lock().take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// RST.
    pub(super) fn reset(&self) {
        if let Some(stream) = self.0.lock().take() {
            let _ = SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
            // The shutdown sends nothing, and ends the read that keeps the other descriptor open.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }
}

/// The connection to the server.
#[derive(Debug)]
pub(super) struct ServerEnd(TcpStream);

impl ServerEnd {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        prepare(&stream)?;
        Ok(Self(stream))
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }

    /// No more requests: the server replies to what it has and closes.
    pub(super) fn finish(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    pub(super) fn cut(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(LONGEST_WRITE))
}
