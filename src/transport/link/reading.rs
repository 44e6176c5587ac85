//! Reading a link: the thread with the right to read takes all replies that have arrived.

use std::io;
use std::sync::atomic::Ordering;

use redis::{ErrorKind, RedisError, RedisResult, Value};
use rustix::event::PollFd;

use super::outgoing::Awaited;
use super::pending::{Outcome, Pending};
use super::{Input, Link};
use crate::base::Moment;
use crate::transport::retry_action::RetryAction;

impl Link {
    /// Reads until the pending is over or the deadline has passed. What has arrived by then is
    /// read, however late this thread gets to it, but not what a server sends without end. Called
    /// by the thread with the right to read, which keeps it.
    pub(super) fn read_until(
        &self,
        pending: Option<&Pending>,
        deadline: impl Fn(Moment) -> Moment,
    ) {
        let mut input = self.input.lock();
        input.reading.begin();
        while !pending.is_some_and(Pending::is_over) {
            let deadline = deadline(self.unanswered_since());
            if self.read_once(&mut input, deadline).is_err() {
                return;
            }
            // By one error reply that no request awaits, a server says why it closes the
            // connection. The end of the connection is read next.
            let is_error = input.pushes.len() == 1 && input.pushes[0].is_err();
            let is_unexpected = !input.pushes.is_empty() && !is_error;
            input.pushes.clear();
            if is_unexpected {
                let what = "a reply without a request";
                return self.end(&RedisError::from((ErrorKind::Parse, what)));
            }
        }
    }

    /// The next reply that no request awaits: a message, or the reply to a command of a subscriber.
    /// Called by the only thread that reads the link. Ends the link after an error, except when the
    /// deadline has passed.
    pub(crate) fn next_push(&self, deadline: Moment) -> RedisResult<Value> {
        let mut input = self.input.lock();
        input.reading.begin();
        loop {
            match input.pushes.pop_front() {
                Some(push) => return push,
                None => self.read_once(&mut input, deadline)?,
            }
        }
    }

    /// Reads once, and gives the replies to their threads. Ends the link after an error, except
    /// when the deadline has passed.
    fn read_once(&self, input: &mut Input, deadline: Moment) -> RedisResult<()> {
        let read = self.receive(input, deadline);
        let read = read.and_then(|()| self.deliver(input));
        read.inspect_err(|error| {
            if !error.is_timeout() {
                self.end(error);
            }
        })
    }

    /// Reads what has arrived, without a wait.
    pub(super) fn read_available(&self, pending: &Pending) {
        self.read_until(Some(pending), |_| Moment::ZERO);
    }

    /// Gives the right to read to the thread whose reply is the next.
    pub(super) fn pass_reading_on(&self) {
        let next = {
            let mut state = self.state.lock();
            let mut pendings = state.awaited.iter().map(|awaited| &awaited.pending);
            let next = pendings.find(|pending| pending.give_reading()).cloned();
            state.is_reading = next.is_some();
            next
        };
        if let Some(next) = next {
            next.wake();
        }
    }

    /// Reads what has arrived if no thread reads. Does not wait.
    pub(crate) fn read_if_unread(&self) {
        if self.load() > 0 && self.begin_reading() {
            self.read_until(None, |_| Moment::ZERO);
            self.pass_reading_on();
        }
    }

    /// Takes the right to read, if no thread has it.
    pub(super) fn begin_reading(&self) -> bool {
        let mut state = self.state.lock();
        let begins = !state.is_reading && state.end.is_none();
        state.is_reading |= begins;
        begins
    }

    /// Waits until bytes arrive. If a write is blocked, goes on with it meanwhile.
    fn receive(&self, input: &mut Input, deadline: Moment) -> RedisResult<()> {
        let is_blocked = self.state.lock().is_blocked();
        if is_blocked {
            self.socket.wait_for_room(deadline)?;
            drop(self.write(self.state.lock()));
            // Perhaps there was only room to write. Then the caller looks at its deadline again.
            if !self.socket.is_readable()? && !deadline.is_past() {
                return Ok(());
            }
        }
        match self
            .socket
            .read(&mut input.reading, &mut input.room, deadline)?
        {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            read => {
                input.decoder.push(&input.room[..read]);
                Ok(())
            }
        }
    }

    /// Gives each whole reply that has arrived to its thread. Also before an error, such as bytes
    /// that are no reply: those before them are replies.
    fn deliver(&self, input: &mut Input) -> RedisResult<()> {
        let decoded = input.decode_all();
        if input.replies.is_empty() {
            return decoded;
        }
        let now = Moment::now();
        self.find_requests(&mut input.replies, now);
        // Without the link's mutex: it wakes threads, which lock the mutex next.
        self.hand_out(input, now);
        decoded
    }

    /// Finds the request of each reply, and records that the server has replied.
    fn find_requests(&self, replies: &mut [(RedisResult<Value>, Option<Awaited>)], now: Moment) {
        let first = replies.first().and_then(|(reply, _)| reply.as_ref().err());
        let mut state = self.state.lock();
        state.heard = now;
        // Without those whose replies no request awaits. One of the threads reads, and is awake.
        state.woken = replies.len().min(state.awaited.len()).saturating_sub(1);
        state.is_established |= !first.is_some_and(RetryAction::refuses_client);
        for (_, awaited) in replies {
            *awaited = state.awaited.pop_front();
        }
        // After the requests are taken out: the link is trusted again if it awaits no reply.
        state.is_doubted &= !state.awaited.is_empty();
    }

    /// Gives each reply to the thread whose request it is to. Keeps the others as pushes.
    fn hand_out(&self, input: &mut Input, now: Moment) {
        for (reply, awaited) in input.replies.drain(..) {
            let Some(awaited) = awaited else {
                input.pushes.push_back(reply);
                continue;
            };
            // If the server refused ASKING, that error is why it refuses the request.
            let reply = match input.refusal.take() {
                Some(refusal) if reply.is_err() => Err(refusal),
                _ => reply,
            };
            if awaited.is_asking {
                input.refusal = reply.err();
                continue;
            }
            // First, so that the thread, once it is woken, does not find the link more loaded than
            // it is.
            self.load.fetch_sub(1, Ordering::Relaxed);
            let outcome = Outcome::Replied(reply, now);
            awaited.pending.end(awaited.index, outcome);
        }
    }

    /// The socket, for a `poll` over several links.
    pub(super) fn polled(&self) -> PollFd<'_> {
        self.socket.polled()
    }
}

impl Input {
    /// Takes the whole replies out of what has arrived.
    fn decode_all(&mut self) -> RedisResult<()> {
        while let Some(reply) = self.decoder.next_reply()? {
            self.replies.push((reply, None));
        }
        Ok(())
    }
}
