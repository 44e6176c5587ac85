//! What a thread waits for on a link: the replies to the requests that it sent together.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex, MutexGuard};
use redis::{RedisError, RedisResult, Value};

use crate::base::{List, Moment, PerProcess, wait_for_state};

/// What became of a request.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// A reply or an error reply, and when it arrived.
    Replied(RedisResult<Value>, Moment),
    /// The link broke before the reply.
    Broken(RedisError),
}

/// The reply, or the error of a request without one.
pub(crate) fn reply_of(outcome: Option<Outcome>) -> RedisResult<Value> {
    match outcome {
        Some(Outcome::Replied(reply, _)) => reply,
        Some(Outcome::Broken(error)) => Err(error),
        None => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

/// Shared by the thread that waits, and by the one that reads the replies.
///
/// | state | event | next |
/// |---|---|---|
/// | sent | its thread begins to wait | waits |
/// | waits | the thread that read has its own replies | reads |
/// | waits, reads | all outcomes are known, or its deadline | sent; it gives the right to read on |
/// | any | a reply arrives, or the link breaks | the same; the outcome is recorded |
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Its mutex protects: the right to read is given to a thread that takes it, or gives it on.
    /// Locked inside of the link's state.
    state: Mutex<PendingState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingState {
    outcomes: List<Option<Outcome>>,
    /// The number of outcomes that are not known.
    missing: usize,
    /// The thread has the right to read.
    reads: bool,
    /// The thread waits, and takes the right to read.
    waits: bool,
    /// Wakes a thread that waits for several links.
    waker: Option<Arc<Waker>>,
}

impl PendingState {
    /// All outcomes are known, or the thread has to read.
    fn is_woken(&self) -> bool {
        self.missing == 0 || self.reads
    }
}

impl Pending {
    pub(super) fn new(requests: usize) -> Self {
        Self {
            state: Mutex::new(PendingState {
                outcomes: List::from_elem(None, requests),
                missing: requests,
                // Each field is listed, because a default of the others has a list to drop.
                reads: false,
                waits: false,
                waker: None,
            }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().missing == 0
    }

    /// Records that the thread waits, so that it can be given the right to read. With a `waker`, it
    /// waits for several links, and is woken by that.
    pub(super) fn begin_wait(&self, waker: Option<&Arc<Waker>>) {
        let mut state = self.state.lock();
        (state.waits, state.waker) = (true, waker.cloned());
    }

    /// True if the thread has been given the right to read meanwhile, which it then has no longer.
    pub(super) fn end_wait(&self) -> bool {
        let mut state = self.state.lock();
        (state.waits, state.waker) = (false, None);
        std::mem::take(&mut state.reads)
    }

    /// Sleeps until the thread is woken. False if it is not by the deadline.
    pub(super) fn sleep(&self, deadline: Moment) -> bool {
        let mut state = self.state.lock();
        wait_for_state(&self.changed, &mut state, deadline, PendingState::is_woken)
    }

    /// True if the thread need not sleep.
    pub(super) fn is_woken(&self) -> bool {
        self.state.lock().is_woken()
    }

    /// Gives the right to read to the thread, if it still waits. The caller
    /// [wakes](Self::wake) it then.
    pub(super) fn give_reading(&self) -> bool {
        let mut state = self.state.lock();
        let is_given = state.missing > 0 && state.waits;
        state.reads |= is_given;
        is_given
    }

    /// Whether the thread has the right to read, which it then has no longer.
    pub(super) fn take_reading(&self) -> bool {
        std::mem::take(&mut self.state.lock().reads)
    }

    pub(super) fn wake(&self) {
        let waker = self.state.lock().waker.clone();
        match waker {
            Some(waker) => waker.wake(),
            None => {
                self.changed.notify_one();
            }
        }
    }

    /// Records the outcome of the request with this index, if it is not known. Wakes the thread
    /// after the last one.
    pub(super) fn end(&self, index: usize, outcome: Outcome) {
        {
            let mut state = self.state.lock();
            match state.outcomes.get_mut(index) {
                Some(unknown @ None) => *unknown = Some(outcome),
                _ => return,
            }
            state.missing -= 1;
            if state.missing > 0 || !state.waits {
                return;
            }
        }
        // Without the mutex, which the thread locks as soon as it is woken.
        self.wake();
    }

    /// The outcome of the request with this index, if it is known.
    pub(super) fn outcome(&self, index: usize) -> Option<Outcome> {
        self.state.lock().outcomes.get(index).cloned().flatten()
    }

    /// Takes the reply to a single request, if it is there and is no error reply.
    pub(crate) fn take_reply(&self) -> Option<(Value, Moment)> {
        let mut state = self.state.lock();
        match state.outcomes.first_mut()?.take() {
            Some(Outcome::Replied(Ok(reply), at)) => Some((reply, at)),
            other => {
                state.outcomes[0] = other;
                None
            }
        }
    }

    /// Takes the outcomes that are known.
    pub(crate) fn outcomes(&self) -> List<Option<Outcome>> {
        let mut state = self.state.lock();
        match state.missing {
            0 => std::mem::take(&mut state.outcomes),
            _ => state.outcomes.iter().cloned().collect(),
        }
    }
}

/// Ends the wait of a thread for several sockets.
#[derive(Debug)]
pub(super) struct Waker(UdpSocket);

/// The wakers of this process that no thread uses. Each process has its own: a signal to a socket
/// that it shares with a forked child could wake the child instead. The mutex protects that two
/// threads do not use one waker.
static IDLE: OnceLock<PerProcess<Mutex<Vec<Arc<Waker>>>>> = OnceLock::new();

/// The most idle wakers that are kept.
const MOST_IDLE: usize = 64;

impl Waker {
    fn idle() -> MutexGuard<'static, Vec<Arc<Self>>> {
        IDLE.get_or_init(PerProcess::default).get().lock()
    }

    /// An idle waker, or a new one. A thread that used it before may still send it a signal, which
    /// ends a wait too early.
    pub(super) fn take() -> io::Result<Arc<Self>> {
        let idle = Self::idle().pop();
        idle.map_or_else(|| Self::new().map(Arc::new), Ok)
    }

    /// Keeps the waker for the next wait of a thread, if there are not enough.
    pub(super) fn give_back(waker: Arc<Self>) {
        let mut idle = Self::idle();
        if idle.len() < MOST_IDLE {
            idle.push(waker);
        } else {
            // Closes the socket.
            drop(idle);
            drop(waker);
        }
    }

    fn new() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    fn wake(&self) {
        // If its buffer is full, the thread is woken already.
        let _ = self.0.send(&[1]);
    }

    /// Takes the signals out, so that the next wait does not end by them.
    pub(super) fn clear(&self) {
        while self.0.recv(&mut [0; 8]).is_ok() {}
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.0
    }
}
