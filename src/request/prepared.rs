//! A request of a waiting thread that the subscriber thread sends as soon as a message announces a
//! release.
//!
//! Without it, the request would leave only after the waiting thread has been woken. With it, the
//! thread wakes while the server executes the request, and reads the reply.
//!
//! A thread that sends its request itself needs one request for all messages before it. Here a
//! message can arrive after the request was sent, and before the thread has woken up. That message
//! may announce a later release, so the request is [outdated](Prepared::is_outdated).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::client::RedisClient;
use super::exchange::Exchange;
use super::reply::LostCopies;
use crate::base::{Active, ClientClock, LockKey, Moment};
use crate::script::Call;
use crate::topology::Topology;
use crate::transport::links::Purpose;
use crate::transport::server::Server;

/// A request that is sent at most once: by the subscriber thread, or by the waiting thread itself.
#[derive(Debug)]
pub(crate) struct Prepared {
    topology: Arc<Topology>,
    clock: ClientClock,
    lock: LockKey,
    call: Call,
    /// Its mutex protects: a thread that takes the request back knows whether it was sent. So it is
    /// locked while the request is sent.
    state: Mutex<State>,
    is_outdated: AtomicBool,
}

#[derive(Debug)]
enum State {
    Unsent,
    Sent(Exchange),
    /// The waiting thread has taken it back, or it could not be sent.
    Over,
}

impl Prepared {
    pub(crate) fn new(client: &RedisClient, lock: &LockKey, call: Call) -> Arc<Self> {
        Arc::new(Self {
            topology: Arc::clone(&client.topology),
            clock: client.clock.clone(),
            lock: lock.clone(),
            call,
            state: Mutex::new(State::Unsent),
            is_outdated: AtomicBool::new(false),
        })
    }

    pub(crate) fn call(&self) -> &Call {
        &self.call
    }

    /// After a message: sends the request if a link is open. Does not wait for one: a busy one may
    /// be slow. The caller drops the result when it has woken the thread.
    pub(crate) fn send(&self) -> Active {
        let active = Active::by_own_thread(&self.clock);
        let mut state = self.state.lock();
        match *state {
            State::Unsent => {
                *state = State::Over;
                let now = Moment::now();
                let server = self.topology.known(&self.lock);
                let open = |server: &Arc<Server>| server.links(Purpose::Caller).open_link(1, now);
                if let Some(server) = server
                    && let Some(link) = open(&server)
                {
                    let sent = link.send(1, now, |out| out.call(&self.call, false));
                    *state = State::Sent(Exchange::of_one(server, sent));
                }
            }
            State::Sent(_) => self.is_outdated.store(true, Ordering::Relaxed),
            State::Over => {}
        }
        active
    }

    /// True if a message has arrived since the request was sent, and before the thread took it
    /// back. Called after that.
    pub(crate) fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Relaxed)
    }

    /// Takes the request back. Returns what was sent; after `None`, nothing is sent any more.
    pub(super) fn take(&self) -> Option<Exchange> {
        match std::mem::replace(&mut *self.state.lock(), State::Over) {
            State::Sent(exchange) => Some(exchange),
            _ => None,
        }
    }

    /// Takes the request back if it was not sent. False if it was.
    pub(crate) fn cancel(&self) -> bool {
        let mut state = self.state.lock();
        let is_sent = matches!(*state, State::Sent(_));
        if !is_sent {
            *state = State::Over;
        }
        !is_sent
    }

    /// Takes the request back without reading the reply.
    pub(crate) fn abandon(&self) -> LostCopies {
        let mut lost_copies = LostCopies::default();
        if let Some(exchange) = self.take() {
            let copy = exchange.sent.copy(0);
            lost_copies.lost(&exchange.server, Some((copy, &self.call)));
        }
        lost_copies
    }
}
