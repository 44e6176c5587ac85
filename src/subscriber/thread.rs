//! The subscriber thread: connects, subscribes to the wanted channels, reads messages, sends the
//! prepared requests of the waiting threads, and unparks them. After any failure it connects again.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::MutexGuard;
use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::channels::{Channels, Listening, REFUSED_PAUSE};
use super::connection::{ConnectionState, Requested, SubscriberConnection};
use crate::base::{Backoff, Moment, Unparker, wait_for_state};
use crate::observe::tell;
use crate::protocol::message::Message;
use crate::transport::link::Link;
use crate::transport::retry_action::RetryAction;

/// The longest read, and the time from one search for unused channels to the next.
const TICK: Duration = Duration::from_secs(1);

/// How long a thread that was refused may take until it listens. After this time, the client leaves
/// the line of a lock for which it was called. Locks that were freed meanwhile are confirmed
/// together.
const UNANSWERED: Duration = Duration::from_millis(10);

/// Sends a PING after this time without any data from the server.
const PING_AFTER: Duration = Duration::from_secs(5);

/// Between attempts to connect.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

struct SubscriberThread {
    shared: Arc<SubscriberConnection>,
    pauses: Backoff,
    /// Attempts that failed since the last success.
    failures: u32,
    /// The last attempt failed because the user may not subscribe.
    refused: bool,
    /// A refused channel was logged. Only the first one is, because every lock may have one.
    logged_refusal: bool,
}

impl SubscriberConnection {
    /// Starts the thread, unless it runs.
    pub(super) fn start(self: &Arc<Self>, mut state: MutexGuard<'_, ConnectionState>) {
        if state.is_running || state.is_stopped {
            return;
        }
        let body = SubscriberThread {
            shared: Arc::clone(self),
            pauses: BACKOFF,
            failures: 0,
            refused: false,
            logged_refusal: false,
        };
        let queue = &self.context.observer.queue;
        match queue.spawn("leasehold-subscriber", move || body.run()) {
            Ok(handle) => {
                state.is_running = true;
                let ended = state.thread.replace(handle);
                drop(state);
                // It has cleared `is_running`, which is the last thing that it does.
                ended.map(JoinHandle::join);
            }
            // Waiting threads poll, and the next wait tries to start the thread again.
            Err(error) => {
                drop(state);
                tell(move || tracing::warn!(%error, "could not start the subscriber thread"));
            }
        }
    }
}

impl SubscriberThread {
    fn run(mut self) {
        while !self.ends() {
            // A panic ends the connection, but not the thread.
            let connection = catch_unwind(AssertUnwindSafe(|| self.serve()));
            self.refused = match connection {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => RetryAction::on(&error) == RetryAction::Fail,
                Err(_) => false,
            };
            // These threads may have missed messages since the failure.
            let woken = {
                let mut state = self.shared.state.lock();
                state.link = None;
                if !state.channels.is_connected() {
                    self.shared.is_deaf.store(true, Ordering::Relaxed);
                    self.shared.context.any_deaf.store(true, Ordering::Relaxed);
                }
                // First, so that unused channels are not subscribed again.
                state.channels.expire(Moment::now());
                state.channels.disconnected()
            };
            woken.iter().for_each(Unparker::unpark);
            let pause = self.pauses.next();
            self.pause(if self.refused { REFUSED_PAUSE } else { pause });
        }
    }

    /// Decides whether the thread ends, and records it. It ends with its client, or if no thread
    /// waits and the server cannot be reached, because that server may be gone. It stays if the
    /// user may not subscribe, so that this is logged once.
    fn ends(&self) -> bool {
        let mut state = self.shared.state.lock();
        let is_unused = self.failures > 0 && !self.refused && state.channels.is_empty();
        state.is_running = !(state.is_stopped || is_unused);
        if !state.is_running {
            self.shared.stopped.notify_all();
        }
        !state.is_running
    }

    fn pause(&self, pause: Duration) {
        let end = Moment::now().after(pause);
        let SubscriberConnection { state, stopped, .. } = &*self.shared;
        wait_for_state(stopped, &mut state.lock(), end, |state| state.is_stopped);
    }

    /// Opens a connection and reads from it. Returns `Ok` when the client is dropped.
    fn serve(&mut self) -> RedisResult<()> {
        let result = self.connect().and_then(|link| self.listen(&link));
        match result {
            Err(error) if !self.shared.state.lock().is_stopped => {
                self.failures = self.failures.saturating_add(1);
                if self.failures == 1 {
                    let (node, error) = (Arc::clone(self.shared.server.name()), error.clone());
                    tell(move || {
                        tracing::warn!(%node, %error, "no subscription; waiting threads poll");
                    });
                }
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn connect(&self) -> RedisResult<Arc<Link>> {
        let node = &self.shared.server.node;
        let link = node.open(self.shared.context.redis.connect_timeout)?;
        let mut state = self.shared.state.lock();
        state.link = Some(Arc::clone(&link));
        // The last connection does not reply any more.
        state.requested.clear();
        state.send("SUBSCRIBE", std::slice::from_ref(self.control()), 1);
        Ok(link)
    }

    fn control(&self) -> &Arc<str> {
        &self.shared.context.control
    }

    /// Reads from a connection until it fails. Returns `Ok` when the client is dropped.
    fn listen(&mut self, link: &Link) -> RedisResult<()> {
        let mut heard = Moment::now();
        let mut next_search = heard.after(TICK);
        loop {
            if next_search.is_past() {
                next_search = Moment::now().after(TICK);
                self.search(heard);
            }
            // Without a reply to a request the connection is of no use.
            let (reply_by, unanswered_since) = {
                let mut state = self.shared.state.lock();
                if state.is_stopped {
                    return Ok(());
                }
                // What was wanted before the control channel was subscribed, or refused long ago.
                state.subscribe_wanted();
                let timeout = self.shared.context.redis.command_timeout;
                let requested = state.requested.front();
                let reply_by =
                    requested.map_or(Moment::NEVER, |one| one.at.max(heard).after(timeout));
                (reply_by, state.channels.unanswered_since())
            };
            let answer_by = unanswered_since.map_or(Moment::NEVER, |since| since.after(UNANSWERED));
            // Before the read, which may take a second.
            if answer_by.is_past() {
                self.handle_unanswered();
                continue;
            }
            let received = link.next_push(next_search.min(reply_by).min(answer_by));
            // An error reply shows that the server is there, too.
            if received.as_ref().err().is_none_or(RetryAction::is_reply) {
                heard = Moment::now();
            }
            match received {
                Ok(push) => self.handle(&push)?,
                Err(error) if RetryAction::is_reply(&error) => self.handle_refusal(error)?,
                Err(error) if error.is_timeout() && !reply_by.is_past() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Unsubscribes unused channels, and sends a PING if nothing has arrived since long before.
    fn search(&self, heard: Moment) {
        let mut state = self.shared.state.lock();
        let now = Moment::now();
        let expired = state.channels.expire(now);
        state.send_as_published(["UNSUBSCRIBE", "SUNSUBSCRIBE"], &expired);
        if heard.after(PING_AFTER) <= now && state.requested.is_empty() {
            state.send("PING", std::slice::from_ref(self.control()), 1);
        }
    }

    /// Leaves the lines for which the client was called, and no thread has answered. Confirms the
    /// locks that were freed.
    fn handle_unanswered(&self) {
        let since = Moment::now().before(UNANSWERED);
        let unanswered = self.shared.channels().take_unanswered(since);
        let on = &self.shared.context.on;
        let mut freed = HashSet::new();
        for (name, text) in &unanswered {
            match Message::parse(text) {
                Message::Called(key) => {
                    let place = if name == text { self.control() } else { name };
                    (on.unanswered)(key, place);
                }
                Message::Freed(key) => {
                    freed.insert(key);
                }
                Message::Empty | Message::Numbers { .. } => {}
            }
        }
        if !freed.is_empty() {
            (on.freed)(&freed);
        }
    }

    /// Handles a message, the reply to a command for one channel, or the end of a subscription
    /// whose channel has moved to another server.
    fn handle(&mut self, push: &Value) -> RedisResult<()> {
        let unexpected = || (ErrorKind::Parse, "an unexpected reply to the subscriber").into();
        let (kind, channel, text) = parts_of(push).ok_or_else(unexpected)?;
        if matches!(kind, "message" | "smessage") {
            self.handle_message(channel, text);
        } else if self.shared.state.lock().take_requested(kind, channel) {
            if kind.ends_with("unsubscribe") || kind == "pong" {
                return Ok(());
            }
            match *channel == **self.control() {
                true => self.connected(),
                false => self.wake(|channels| channels.confirmed(channel, Moment::now())),
            }
        } else if kind == "sunsubscribe" {
            self.moved(channel);
        } else {
            return Err(unexpected());
        }
        Ok(())
    }

    /// The control channel is subscribed.
    fn connected(&mut self) {
        self.pauses.reset();
        self.shared.is_deaf.store(false, Ordering::Relaxed);
        if std::mem::take(&mut self.failures) > 0 {
            let context = &self.shared.context;
            context.observer.reconnected(self.shared.server.name());
        }
        self.wake(|channels| channels.connected(Moment::now()));
    }

    fn handle_message(&self, channel: &str, text: &str) {
        let is_control = *channel == **self.control();
        let name = if is_control { text } else { channel };
        let woken = self.shared.channels().message(name, text, Moment::now());
        woken.iter().for_each(Listening::wake);
    }

    /// Handles an error reply, which is the reply to all channels of a command.
    fn handle_refusal(&mut self, error: RedisError) -> RedisResult<()> {
        let mut state = self.shared.state.lock();
        let Some(Requested { command, more, .. }) = state.requested.front() else {
            return Err(error);
        };
        let (command, more) = (*command, *more);
        let requested = state.requested.drain(..=more);
        let channels: Vec<Arc<str>> = requested.map(|one| one.channel).collect();
        let subscribes = matches!(command, "SUBSCRIBE" | "SSUBSCRIBE");
        match RetryAction::on(&error) {
            // The channel has moved to another server, which ended the subscription.
            RetryAction::Redirect if !subscribes => {}
            RetryAction::Redirect => {
                drop(state);
                self.moved(&channels[0]);
            }
            RetryAction::Fail | RetryAction::Unclear if more > 0 => {
                state.send(command, &channels, 1);
            }
            RetryAction::Fail | RetryAction::Unclear
                if subscribes && channels[0] != *self.control() =>
            {
                drop(state);
                self.shared.context.any_deaf.store(true, Ordering::Relaxed);
                self.wake(|known| known.refused(&channels[0], Moment::now()));
                if !std::mem::replace(&mut self.logged_refusal, true) {
                    let channel = Arc::clone(&channels[0]);
                    tell(move || {
                        tracing::warn!(
                            %channel,
                            %error,
                            "a channel was refused; its waiting threads poll"
                        );
                    });
                }
            }
            _ => return Err(error),
        }
        Ok(())
    }

    /// Unparks the listeners. They try to acquire the lock, which tells them its new server, and
    /// listen there.
    fn moved(&self, channel: &str) {
        self.wake(|channels| channels.moved(channel));
    }

    /// Changes the channels, and wakes the listeners that this returns.
    fn wake(&self, change: impl FnOnce(&mut Channels) -> Vec<Unparker>) {
        let woken = change(&mut self.shared.channels());
        woken.iter().for_each(Unparker::unpark);
    }
}

impl Listening {
    /// Sends the thread's request, and wakes the thread.
    fn wake(&self) {
        // Before the wake-up, so that the thread finds its request sent. Until the thread runs, no
        // test skips time.
        let _active = self.prepared.as_ref().map(|prepared| prepared.send());
        self.unparker.unpark_by_message();
    }
}

/// The first three elements of what a server sends to a subscriber: `["message", channel, text]`,
/// `["subscribe", channel, count]` or `["pong", ""]`. What is no text is empty.
fn parts_of(push: &Value) -> Option<(&str, &str, &str)> {
    let Value::Array(parts) = push else {
        return None;
    };
    let text = |at: usize| match parts.get(at)? {
        Value::BulkString(text) => str::from_utf8(text).ok(),
        _ => None,
    };
    Some((text(0)?, text(1)?, text(2).unwrap_or_default()))
}
