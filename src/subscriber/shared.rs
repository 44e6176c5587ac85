//! What the subscriber's threads share with the threads that wait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::channels::Channels;
use crate::observe::Observer;
use crate::request::RedisClient;
use crate::transport::server::Server;

/// What all subscriber connections of a client use.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) redis: Arc<RedisClient>,
    pub(super) observer: Arc<Observer>,
    /// A channel of this client alone. An empty message on it ends a thread's read. Others call the
    /// client, or tell of a lock of it that `force_unlock` has freed.
    pub(super) control: Arc<str>,
    pub(super) on: Handlers,
    pub(super) connect_timeout: Duration,
    pub(super) command_timeout: Duration,
}

type OnUnanswered = Box<dyn Fn(&str, &str) + Send + Sync>;

/// What the subscriber thread calls for messages that no waiting thread handles.
pub(crate) struct Handlers {
    /// With the key of a lock of this client that another client has freed by `force_unlock`.
    pub(crate) freed: Box<dyn Fn(&str) + Send + Sync>,
    /// With the key of a lock for which the client was called, and its place in the line. No thread
    /// has answered.
    pub(crate) unanswered: OnUnanswered,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

/// What one subscriber thread shares with the threads that wait.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) server: Arc<Server>,
    pub(super) state: Mutex<ThreadState>,
    /// Ends the pause before the next attempt to connect.
    pub(super) stopped: Condvar,
    /// The thread has ended.
    pub(super) ended: Condvar,
}

/// Its mutex protects two invariants:
///
/// * No new channel stays unseen. A thread that adds one while the subscriber thread reads, or is
///   about to read, interrupts that read. The subscriber thread sees an earlier one before it
///   reads.
/// * A subscriber thread that ends because no thread waits clears `running` before the next
///   channel can be added.
#[derive(Debug, Default)]
pub(super) struct ThreadState {
    pub(super) channels: Channels,
    pub(super) running: bool,
    pub(super) reading: bool,
    pub(super) stop: bool,
}
