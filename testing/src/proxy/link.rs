//! The threads of one connection through the proxy.
//!
//! One thread reads requests and applies the rules, one delivers them, and one passes on the
//! replies. Reading continues while a delivery waits, so that requests are not lost when the client
//! disconnects.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use parking_lot::Mutex;

use super::Shared;
use super::ends::{ClientEnd, ServerEnd};
use super::rules::{Fault, Held, ProxiedRequest};
use crate::frame;

/// Both ends, and the requests that expect replies, oldest first.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) client: ClientEnd,
    pub(super) server: ServerEnd,
    expected: Mutex<VecDeque<Expected>>,
    /// Messages may come, which are not replies.
    listens: AtomicBool,
    /// A reply was swallowed, so no later one passes: the client would take it for that reply.
    is_silent: AtomicBool,
}

/// The replies to one request.
#[derive(Debug)]
struct Expected {
    replies: usize,
    fault: Fault,
}

/// A request to be delivered to the server.
pub(super) struct Delivery {
    bytes: Vec<u8>,
    replies: usize,
    fault: Fault,
    /// Set if it waits at a gate.
    held: Option<Held>,
    came: Instant,
}

impl Link {
    pub(super) fn new(number: u64, client: ClientEnd, server: ServerEnd) -> Self {
        Self {
            number,
            client,
            server,
            expected: Mutex::default(),
            listens: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
        }
    }

    pub(super) fn read_requests(
        self: &Arc<Self>,
        shared: &Shared,
        from: TcpStream,
        deliveries: &Sender<Delivery>,
    ) {
        // If a rule panics, its client must not wait.
        let _on_panic = CutOnPanic(Arc::clone(self));
        let mut buffer = Buffer::new(from);
        while buffer.fill().is_ok() {
            loop {
                let (length, words) = match frame::request(buffer.bytes()) {
                    Ok(Some(framed)) => framed,
                    Ok(None) => break,
                    Err(frame::ProtocolError) => return self.client.cut(),
                };
                let bytes = buffer.take(length);
                if words.is_empty() {
                    continue;
                }
                let request = ProxiedRequest::new(self.number, words, &shared.scripts);
                let fault = if request.describes_connection() {
                    Fault::Pass
                } else {
                    shared.requests.fetch_add(1, Ordering::SeqCst);
                    (shared.on_request.lock())(&request)
                };
                if request.subscribes() {
                    self.listens.store(true, Ordering::SeqCst);
                }
                let held = match &fault {
                    Fault::HoldBack(gate) => Some(gate.arrive()),
                    _ => None,
                };
                let delivery = Delivery {
                    bytes,
                    replies: request.replies(),
                    fault,
                    held,
                    came: Instant::now(),
                };
                if deliveries.send(delivery).is_err() {
                    return;
                }
            }
        }
    }

    /// Ends when no more requests can come. The server's replies still come then.
    pub(super) fn deliver(&self, deliveries: &Receiver<Delivery>, stop: &Receiver<Infallible>) {
        for delivery in deliveries {
            let go_on = match &delivery.fault {
                Fault::Delay(time) => sleep(*time, stop),
                Fault::Latency(time) => sleep(time.saturating_sub(delivery.came.elapsed()), stop),
                Fault::HoldBack(gate) => gate.wait(stop),
                Fault::SwallowRequest => {
                    self.is_silent.store(true, Ordering::SeqCst);
                    continue;
                }
                Fault::HalfRequest => {
                    let half = &delivery.bytes[..delivery.bytes.len() / 2];
                    let _ = self.server.write(half);
                    false
                }
                _ => true,
            };
            drop(delivery.held);
            if !go_on {
                return self.cut();
            }
            // Before the request is sent, because the reply may come at once.
            let Delivery { replies, fault, .. } = delivery;
            self.expected.lock().push_back(Expected { replies, fault });
            if self.server.write(&delivery.bytes).is_err() {
                return self.cut();
            }
        }
        self.server.finish();
    }

    pub(super) fn read_replies(&self, shared: &Shared, from: TcpStream) {
        let mut buffer = Buffer::new(from);
        let end = loop {
            match frame::reply(buffer.bytes()) {
                Ok(Some(length)) => self.pass_on(&buffer.take(length), shared),
                Ok(None) => {
                    if let Err(end) = buffer.fill() {
                        break end;
                    }
                }
                Err(frame::ProtocolError) => break ErrorKind::InvalidData,
            }
        };
        match end {
            ErrorKind::ConnectionReset => self.client.reset(),
            _ => self.cut(),
        }
    }

    fn pass_on(&self, reply: &[u8], shared: &Shared) {
        let listens = self.listens.load(Ordering::SeqCst);
        if let Some((channel, payload)) = frame::message(reply).filter(|_| listens) {
            if (shared.on_message.lock())(&channel, &payload) {
                self.client.write(reply);
            }
            return;
        }
        let fault = self.fault_of(reply);
        if self.is_silent.load(Ordering::SeqCst) {
            return;
        }
        match fault {
            Fault::SwallowReply => self.is_silent.store(true, Ordering::SeqCst),
            Fault::ResetBeforeReply => self.client.reset(),
            Fault::ResetInReply(length) => {
                self.client.write(&reply[..length.min(reply.len())]);
                self.client.reset();
            }
            Fault::CutInReply(length) => {
                self.client.write(&reply[..length.min(reply.len())]);
                self.client.cut();
            }
            Fault::SplitReply { every, pause } => {
                for (place, piece) in reply.chunks(every.max(1)).enumerate() {
                    if place > 0 && !sleep(pause, &shared.stop) {
                        return;
                    }
                    self.client.write(piece);
                }
            }
            Fault::ReplaceReply(instead) => self.client.write(&instead),
            Fault::HoldBack(gate) => {
                self.client.write(reply);
                gate.answered();
            }
            Fault::Pass
            | Fault::Delay(_)
            | Fault::Latency(_)
            | Fault::HalfRequest
            | Fault::SwallowRequest => self.client.write(reply),
        }
    }

    /// The fault of the request to which this is the next reply. An error is the only reply.
    fn fault_of(&self, reply: &[u8]) -> Fault {
        let mut expected = self.expected.lock();
        let Some(oldest) = expected.front_mut() else {
            return Fault::Pass;
        };
        oldest.replies -= 1;
        let fault = oldest.fault.clone();
        if oldest.replies == 0 || reply.starts_with(b"-") {
            expected.pop_front();
        }
        fault
    }

    pub(super) fn cut(&self) {
        self.client.cut();
        self.server.cut();
    }
}

struct CutOnPanic(Arc<Link>);

impl Drop for CutOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cut();
        }
    }
}

/// False if the proxy ends before.
fn sleep(time: Duration, stop: &Receiver<Infallible>) -> bool {
    stop.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

/// The bytes that were received, whose last frame may be incomplete.
struct Buffer {
    from: TcpStream,
    bytes: Vec<u8>,
}

impl Buffer {
    fn new(from: TcpStream) -> Self {
        Self {
            from,
            bytes: Vec::new(),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Waits for more bytes. The error says why no more come.
    fn fill(&mut self) -> Result<(), ErrorKind> {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.from.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof),
                Ok(length) => {
                    self.bytes.extend_from_slice(&chunk[..length]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.kind()),
            }
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        self.bytes.drain(..length).collect()
    }
}
