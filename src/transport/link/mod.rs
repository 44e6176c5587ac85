//! A link: a connection to one server that all threads of a client use at the same time.
//!
//! A thread appends its requests to the bytes of the link. If no thread writes, it writes all that
//! is there, so requests of several threads are sent together. Then it waits for its replies. If no
//! thread reads, it reads: it takes all replies that have arrived, each in the order of the
//! requests, and wakes their threads. Once it has its own, it gives the right to read to the thread
//! whose reply is the next. Without waiting threads no thread reads.
//!
//! A write never waits. What the buffer of the system does not take is written by the thread that
//! reads, or by the next thread that sends.
//!
//! A thread whose deadline passes abandons its requests. They stay in the order of the link, and
//! the late replies say what became of them.
//!
//! [`Link::end`] ends a link after a failure: every request on it is then without a reply.
//!
//! A log-in, a look-up and a command of an operations tool have a new link to themselves, and
//! [ask](Link::ask) on it. On that of a subscriber, what no request awaits are
//! [pushes](Link::next_push).

use std::collections::VecDeque;
use std::fmt;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, RedisError, RedisResult, Value};

use crate::base::{List, Moment};
use crate::script::Publish;
use crate::transport::resp::{Decoder, LARGEST_BUFFER};
use crate::transport::retry_action::RetryAction;
use crate::transport::socket::{Reading, Socket};

mod outgoing;
mod pending;
mod reading;
mod sent;
mod writing;

use outgoing::Awaited;
pub(crate) use outgoing::Outgoing;
use pending::Pending;
pub(crate) use pending::{Outcome, reply_of};
pub(crate) use sent::{Sent, SentCopy, wait_for_any};

/// A link that was idle for longer is replaced by a new one, or tested if none can be opened. A
/// firewall or a NAT may have dropped its connection without notice, and each discovery of that
/// costs a whole timeout.
const FRESH: Duration = Duration::from_secs(60);

/// A link on which a reply has arrived within this time is not checked.
const ALIVE: Duration = Duration::from_millis(100);

/// The most bytes that are read at once.
const LARGEST_READ: usize = 8 << 10;

pub(crate) struct Link {
    socket: Socket,
    /// How releases are published on this connection.
    pub(crate) publish: Publish,
    /// The number of requests without a reply. A thread that chooses the link adds its requests
    /// before it sends them.
    load: AtomicUsize,
    /// Threads may choose the link for further requests.
    is_usable: AtomicBool,
    /// Its mutex protects: requests are written in the order in which their replies are awaited;
    /// one thread writes; one thread reads while a thread waits.
    state: Mutex<LinkState>,
    pub(crate) opened_at: Moment,
    /// Locked by the thread that reads.
    input: Mutex<Input>,
}

/// `writing.rs` has a table of who writes.
#[derive(Default)]
struct LinkState {
    /// Bytes that no thread writes yet.
    unwritten: Vec<u8>,
    /// Threads whose replies have arrived lately, and which have sent nothing since.
    woken: usize,
    /// Bytes on the network, of which a part is not written.
    unsent: Vec<u8>,
    is_writing: bool,
    /// No thread yields the processor before a write until this moment.
    yields_from: Moment,
    /// Threads that compute had the processor during the last yield.
    is_yield_long: bool,
    /// The number of bytes that a thread writes now.
    in_write: usize,
    is_reading: bool,
    awaited: VecDeque<Awaited>,
    /// When the last reply arrived.
    heard: Moment,
    /// When a request was sent while no reply was awaited.
    awaited_since: Moment,
    /// A reply to a request has arrived, and did not refuse the connection.
    is_established: bool,
    /// It takes no further requests until all its replies have arrived.
    is_doubted: bool,
    /// Why no reply arrives any more.
    end: Option<RedisError>,
}

impl LinkState {
    /// Since when nothing has arrived while something is awaited.
    fn unanswered_since(&self) -> Moment {
        self.heard.max(self.awaited_since)
    }

    /// There are bytes that no thread writes.
    fn has_bytes(&self) -> bool {
        !(self.unwritten.is_empty() && self.unsent.is_empty())
    }

    /// A write has not taken all bytes, or may not take them.
    fn is_blocked(&self) -> bool {
        !self.unsent.is_empty() || self.in_write > LARGEST_BUFFER
    }
}

#[derive(Default)]
struct Input {
    reading: Reading,
    /// For the next read.
    room: Vec<u8>,
    /// What has arrived and is no whole reply yet.
    decoder: Decoder,
    /// Replies that have arrived, and what they are to. Empty between reads.
    replies: Vec<(RedisResult<Value>, Option<Awaited>)>,
    /// What no request awaits.
    pushes: VecDeque<RedisResult<Value>>,
    /// The error reply to ASKING before the request whose reply is the next.
    refusal: Option<RedisError>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("socket", &self.socket)
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new((socket, reading): (Socket, Reading), publish: Publish) -> Self {
        Self {
            socket,
            publish,
            load: AtomicUsize::new(0),
            is_usable: AtomicBool::new(true),
            state: Mutex::new(LinkState {
                heard: Moment::now(),
                ..LinkState::default()
            }),
            opened_at: Moment::now(),
            input: Mutex::new(Input {
                reading,
                room: vec![0; LARGEST_READ],
                ..Input::default()
            }),
        }
    }

    /// What is sent from now on are requests.
    pub(crate) fn logged_in(self: Arc<Self>) -> Arc<Self> {
        self.state.lock().is_established = false;
        self
    }

    pub(crate) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Chooses the link for this many requests, which the caller sends.
    pub(crate) fn choose(&self, requests: usize) {
        self.load.fetch_add(requests, Ordering::Relaxed);
    }

    /// Gives requests back that the caller does not send.
    pub(crate) fn give_back(&self, requests: usize) {
        self.load.fetch_sub(requests, Ordering::Relaxed);
    }

    /// True once a request has a reply. Before that, a failure can mean that the server accepted
    /// the connection and closed it because it has too many clients.
    pub(crate) fn is_established(&self) -> bool {
        self.state.lock().is_established
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.is_usable.load(Ordering::Relaxed)
    }

    /// True unless the link is doubted or was idle for long. It is doubted from now on if nothing
    /// has arrived for `timeout` although a reply is awaited.
    pub(crate) fn is_trusted(&self, now: Moment, timeout: Duration) -> bool {
        let (is_late, is_trusted) = {
            let state = self.state.lock();
            let is_idle = state.awaited.is_empty();
            let is_late = !is_idle && now.since(state.unanswered_since()) >= timeout;
            let is_fresh = !is_idle || now.since(state.heard) < FRESH;
            (is_late, is_fresh && !state.is_doubted)
        };
        // A reply may have arrived that no thread has read: then the server is not to blame.
        let is_silent = is_late && !self.has_arrived();
        if is_silent {
            self.doubt();
        }
        is_trusted && !is_silent
    }

    /// Trusts the link again only when all replies have arrived that are awaited then. Without any,
    /// after the reply to a [test](Self::test).
    pub(crate) fn doubt(&self) {
        self.state.lock().is_doubted = true;
    }

    /// Sends a PING. The link is doubted until the reply arrives.
    pub(crate) fn test(self: &Arc<Self>) -> Sent {
        self.doubt();
        self.choose(1);
        let ping = redis::cmd("PING").get_packed_command();
        self.send(1, Moment::now(), |out| out.commands(1, &ping))
    }

    /// Sends no further request on the link. Those that are under way get their replies.
    pub(crate) fn retire(&self) {
        self.is_usable.store(false, Ordering::Relaxed);
    }

    /// Sends `requests` requests now, at `sent_at`, which `pack` appends. The caller has
    /// [chosen](Self::choose) the link for them. Does not wait.
    pub(crate) fn send(
        self: &Arc<Self>,
        requests: usize,
        sent_at: Moment,
        pack: impl FnOnce(&mut Outgoing<'_>),
    ) -> Sent {
        let pending = Arc::new(Pending::new(requests));
        let mut state = self.state.lock();
        if let Some(error) = &state.end {
            for index in 0..requests {
                pending.end(index, Outcome::Broken(error.clone()));
            }
            self.give_back(requests);
        } else {
            if state.awaited.is_empty() {
                state.awaited_since = sent_at;
            }
            state.woken = state.woken.saturating_sub(1);
            pack(&mut Outgoing {
                publish: self.publish,
                state: &mut state,
                pending: &pending,
                added: 0,
            });
        }
        writing::SENDS.fetch_add(1, Ordering::Relaxed);
        // Under the same lock, so that requests are written in the order of their replies.
        drop(self.write(state));
        Sent {
            link: Arc::clone(self),
            pending,
            sent_at,
        }
    }

    /// Whether the server replies on the link: it did so just now, or does to a PING until this
    /// moment. Doubts the link otherwise.
    pub(crate) fn is_alive(self: &Arc<Self>, until: Moment) -> bool {
        if Moment::now().since(self.heard()) < ALIVE {
            return true;
        }
        let pong = self.ask_one(&redis::cmd("PING"), until);
        let is_alive = pong.as_ref().err().is_none_or(RetryAction::is_reply);
        if !is_alive {
            self.doubt();
        }
        is_alive
    }

    /// Sends one command, and waits for its reply until this moment.
    pub(crate) fn ask_one(self: &Arc<Self>, command: &Cmd, until: Moment) -> RedisResult<Value> {
        let packed = command.get_packed_command();
        let replies = self.ask((1, &packed), until, Duration::MAX).pop();
        replies.unwrap_or_else(|| reply_of(None))
    }

    /// Sends this number of commands in bytes, and waits for all their replies until this moment,
    /// or until nothing has arrived for `timeout`.
    pub(crate) fn ask(
        self: &Arc<Self>,
        (commands, packed): (usize, &[u8]),
        until: Moment,
        timeout: Duration,
    ) -> List<RedisResult<Value>> {
        self.choose(commands);
        let pack = |out: &mut Outgoing<'_>| out.commands(commands, packed);
        let sent = self.send(commands, Moment::now(), pack);
        sent.wait(until, timeout);
        sent.pending.outcomes().into_iter().map(reply_of).collect()
    }

    /// Ends the link: no reply arrives any more.
    pub(crate) fn end(&self, error: &RedisError) {
        // First, so that no thread chooses the link while its requests end.
        self.retire();
        // Wakes the thread that reads.
        self.socket.shut_down(Shutdown::Both);
        let awaited = {
            let mut state = self.state.lock();
            state.end.get_or_insert_with(|| error.clone());
            (state.unwritten, state.unsent) = (Vec::new(), Vec::new());
            std::mem::take(&mut state.awaited)
        };
        // Without the mutex: this wakes threads, which lock it next.
        for Awaited { pending, index, .. } in awaited.iter().filter(|one| !one.is_asking) {
            self.give_back(1);
            pending.end(*index, Outcome::Broken(error.clone()));
        }
    }

    /// When the last reply arrived.
    pub(crate) fn heard(&self) -> Moment {
        self.state.lock().heard
    }

    /// Since when nothing has arrived while something is awaited.
    pub(crate) fn unanswered_since(&self) -> Moment {
        self.state.lock().unanswered_since()
    }

    /// True if something has arrived that no thread has read, or the connection has ended.
    pub(crate) fn has_arrived(&self) -> bool {
        self.socket.is_readable().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
