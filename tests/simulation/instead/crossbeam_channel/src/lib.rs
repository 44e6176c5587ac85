//! What the library uses of `crossbeam-channel`, on the threads of the simulation.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leasehold_simulation_world::time;
use parking_lot::{Condvar, Mutex};

pub use real::{RecvError, RecvTimeoutError, SendError, TryRecvError};

struct Channel<T> {
    queue: Mutex<VecDeque<T>>,
    changed: Condvar,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

/// The end that sends.
pub struct Sender<T>(Arc<Channel<T>>);

/// The end that receives.
pub struct Receiver<T>(Arc<Channel<T>>);

/// A channel without a limit.
#[must_use]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel {
        queue: Mutex::default(),
        changed: Condvar::new(),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
    });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

/// A channel through which the library sends nothing, or less than its limit.
#[must_use]
pub fn bounded<T>(_: usize) -> (Sender<T>, Receiver<T>) {
    unbounded()
}

/// A channel on which nothing arrives.
#[must_use]
pub fn never<T>() -> Receiver<T> {
    let (sender, receiver) = unbounded();
    std::mem::forget(sender);
    receiver
}

impl<T> Sender<T> {
    /// Sends a message.
    ///
    /// # Errors
    ///
    /// Without a receiver.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        if self.0.receivers.load(Ordering::Relaxed) == 0 {
            return Err(SendError(message));
        }
        self.0.queue.lock().push_back(message);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Sender<T> {
    /// How many messages are not received yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.queue.lock().len()
    }

    /// True without such a message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Receiver<T> {
    /// Takes a message if there is one.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let has_senders = self.0.senders.load(Ordering::Relaxed) > 0;
        self.0.queue.lock().pop_front().ok_or(match has_senders {
            true => TryRecvError::Empty,
            false => TryRecvError::Disconnected,
        })
    }

    /// Waits for a message.
    ///
    /// # Errors
    ///
    /// Without a sender.
    pub fn recv(&self) -> Result<T, RecvError> {
        let received = self.recv_timeout(Duration::from_secs(u64::from(u32::MAX)));
        received.map_err(|_| RecvError)
    }

    /// Waits for a message until this moment.
    ///
    /// # Errors
    ///
    /// Without a message in time, and without a sender.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits for a message, at most for this time.
    ///
    /// # Errors
    ///
    /// Without a message in time, and without a sender.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let until = time::after(timeout);
        let mut queue = self.0.queue.lock();
        loop {
            if let Some(message) = queue.pop_front() {
                return Ok(message);
            }
            if self.0.senders.load(Ordering::Relaxed) == 0 {
                return Err(RecvTimeoutError::Disconnected);
            }
            let now = time::now();
            if now >= until {
                return Err(RecvTimeoutError::Timeout);
            }
            let left = Duration::from_nanos(until - now);
            self.0.changed.wait_for(&mut queue, left);
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.receivers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.senders.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_all();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.receivers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}
