//! Reading a link: the thread with the right to read takes all replies that have arrived.

use std::sync::atomic::Ordering;

use redis::{ErrorKind, RedisResult};
use rustix::event::PollFd;

use super::outgoing::Awaited;
use super::pending::{Outcome, Pending};
use super::{Input, Link};
use crate::base::clock::Moment;

impl Link {
    /// Reads until the pending is over or the deadline has passed. What has arrived by then is
    /// read, however late this thread gets to it. Called by the thread with the right to read,
    /// which keeps it.
    pub(super) fn read_until(
        &self,
        pending: Option<&Pending>,
        deadline: impl Fn(Moment) -> Moment,
    ) {
        let mut input = self.input.lock();
        while !pending.is_some_and(Pending::is_over) {
            let (is_blocked, unanswered_since) = {
                let state = self.state.lock();
                (state.is_blocked(), state.unanswered_since())
            };
            let deadline = deadline(unanswered_since);
            let received = self.receive(&mut input, is_blocked, deadline);
            match received.and_then(|()| self.deliver(&mut input)) {
                Ok(()) => {}
                Err(error) if error.is_timeout() => return,
                Err(error) => return self.end(&error),
            }
        }
    }

    /// Reads what has arrived, without a wait.
    pub(super) fn read_available(&self, pending: &Pending) {
        self.read_until(Some(pending), |_| Moment::ZERO);
    }

    /// Gives the right to read to the thread whose reply is the next.
    pub(super) fn hand_over(&self) {
        let next = {
            let mut state = self.state.lock();
            let mut pendings = state.awaited.iter().filter_map(Awaited::pending);
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
            self.hand_over();
        }
    }

    /// Takes the right to read, if no thread has it.
    pub(super) fn begin_reading(&self) -> bool {
        let mut state = self.state.lock();
        let begins = !state.is_reading && state.end.is_none();
        state.is_reading |= begins;
        begins
    }

    /// Waits until bytes arrive. If a write `is_blocked`, goes on with it meanwhile.
    pub(super) fn receive(
        &self,
        input: &mut Input,
        is_blocked: bool,
        deadline: Moment,
    ) -> RedisResult<()> {
        if is_blocked {
            self.socket.wait_for_room(deadline)?;
            drop(self.write(self.state.lock()));
            if !self.socket.is_readable()? && !deadline.is_past() {
                return Ok(());
            }
        }
        let Input {
            received, reading, ..
        } = input;
        Ok(received.fill(|room| self.socket.read(reading, room, deadline))?)
    }

    /// Gives each reply that has arrived to its thread.
    pub(super) fn deliver(&self, input: &mut Input) -> RedisResult<()> {
        let Input {
            received,
            replies,
            refusal,
            ..
        } = input;
        let decoded = loop {
            match received.next() {
                Ok(Some(reply)) => replies.push((reply.extract_error(), None)),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let Some((first, _)) = replies.first() else {
            return decoded;
        };
        let now = Moment::now();
        {
            let mut state = self.state.lock();
            state.heard = now;
            state.woken = replies.len() - 1;
            if let Some(error) = state.refusal(first) {
                // It is the only reply, and no request is executed.
                self.retire();
                let requests = state.awaited.drain(..);
                let requests = requests.filter(|one| !matches!(one, Awaited::Name(_)));
                replies.clear();
                replies.extend(requests.map(|one| (Err(error.clone()), Some(one))));
            } else {
                state.is_established = true;
                for (_, awaited) in &mut *replies {
                    *awaited = state.awaited.pop_front();
                }
            }
        }
        let mut requests = 0;
        let mut is_unexpected = false;
        for (reply, awaited) in replies.drain(..) {
            match awaited {
                Some(Awaited::Request(pending, place)) => {
                    requests += 1;
                    // If the server refused ASKING, that error is the reason.
                    let reply = match refusal.take() {
                        Some(refusal) if reply.is_err() => Err(refusal),
                        _ => reply,
                    };
                    pending.end(place, Outcome::Replied(reply, now));
                }
                Some(Awaited::Asking) => *refusal = reply.err(),
                Some(Awaited::Name(name)) => name.received(reply),
                Some(Awaited::Nothing) => requests += 1,
                None => is_unexpected = true,
            }
        }
        self.load.fetch_sub(requests, Ordering::Relaxed);
        decoded?;
        match is_unexpected {
            true => Err((ErrorKind::Parse, "a reply without a request").into()),
            false => Ok(()),
        }
    }

    /// For a wait for several links.
    pub(super) fn polled(&self) -> PollFd<'_> {
        self.socket.polled()
    }
}
