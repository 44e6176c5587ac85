//! The subscriber thread: connects, subscribes to the wanted channels, reads messages, sends the
//! prepared requests of the waiting threads, and unparks them. After any failure it connects again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::channels::{BATCH, CALLED, Channels, Listening, REFUSED_PAUSE};
use super::connection::SubscriberConnection;
use super::push::{is_reply_to, parts_of, unexpected_reply};
use crate::base::backoff::Backoff;
use crate::base::clock::Moment;
use crate::base::parker::Unparker;
use crate::base::wait::wait_until;
use crate::observe::tell;
use crate::script::Publish;
use crate::transport::link::Link;
use crate::transport::retry_action::RetryAction;

/// The longest read, and the time from one search for unused channels to the next. It bounds how
/// late a new channel is seen if the interrupt of the read failed.
const TICK: Duration = Duration::from_secs(1);

/// Sends a PING after this time without any data from the server.
const PING_AFTER: Duration = Duration::from_secs(5);

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

struct SubscriberThread {
    shared: Arc<SubscriberConnection>,
    /// Between attempts to connect.
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
    pub(super) fn start(self: &Arc<Self>) {
        let mut thread = self.thread.lock();
        {
            let mut state = self.state.lock();
            if state.running || state.stop {
                return;
            }
            state.running = true;
        }
        let body = SubscriberThread {
            shared: Arc::clone(self),
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            failures: 0,
            refused: false,
            logged_refusal: false,
        };
        let queue = &self.context.observer.queue;
        match queue.spawn("leasehold-subscriber", move || body.run()) {
            Ok(handle) => {
                let ended = thread.replace(handle);
                drop(thread);
                // It has cleared `running`, which is the last thing that it does.
                ended.map(JoinHandle::join);
            }
            // Waiting threads poll, and the next wait tries to start the thread again.
            Err(error) => {
                self.state.lock().running = false;
                drop(thread);
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
                state.reading = false;
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
        state.running = !(state.stop || is_unused);
        if !state.running {
            self.shared.stopped.notify_all();
        }
        !state.running
    }

    fn pause(&self, pause: Duration) {
        let end = Moment::now().after(pause);
        let SubscriberConnection { state, stopped, .. } = &*self.shared;
        wait_until(stopped, &mut state.lock(), end, |state| state.stop);
    }

    /// Opens a connection and reads from it. Returns `Ok` when the client is dropped.
    fn serve(&mut self) -> RedisResult<()> {
        let result = self.connect().and_then(|link| {
            self.pauses.reset();
            if std::mem::take(&mut self.failures) > 0 {
                let context = &self.shared.context;
                context.observer.reconnected(self.shared.server.name());
            }
            self.listen(&link)
        });
        if let Err(error) = &result {
            self.failures = self.failures.saturating_add(1);
            if self.failures == 1 {
                let (node, error) = (Arc::clone(self.shared.server.name()), error.clone());
                tell(move || {
                    tracing::warn!(%node, %error, "no subscription; waiting threads poll");
                });
            }
        }
        result
    }

    fn connect(&self) -> RedisResult<Arc<Link>> {
        let node = &self.shared.server.node;
        let link = node.open(self.shared.context.redis.connect_timeout)?;
        self.exchange(&link, "SUBSCRIBE", &self.shared.context.control)?;
        self.wake(|channels| channels.connected(Moment::now()));
        Ok(link)
    }

    /// Reads from a connection until it fails. Returns `Ok` when the client is dropped.
    fn listen(&mut self, link: &Arc<Link>) -> RedisResult<()> {
        let mut received_at = Moment::now();
        let mut next_search = received_at.after(TICK);
        loop {
            let (expired, wanted, unanswered) = {
                let mut state = self.shared.state.lock();
                if state.stop {
                    return Ok(());
                }
                let now = Moment::now();
                let (mut expired, mut unanswered) = (Vec::new(), Vec::new());
                if next_search <= now {
                    next_search = now.after(TICK);
                    expired = state.channels.expire(now);
                    unanswered = state.channels.take_unanswered(now.before(TICK));
                }
                (expired, state.channels.take_wanted(), unanswered)
            };
            for (name, call) in unanswered {
                let control = &self.shared.context.control;
                let place = if name == call { control } else { &name };
                let key = call.strip_prefix(CALLED).unwrap_or_default();
                (self.shared.context.on.unanswered)(key, place);
            }
            self.unsubscribe(link, &expired)?;
            self.subscribe(link, &wanted)?;
            if received_at.after(PING_AFTER).is_past() {
                self.exchange(link, "PING", &self.shared.context.control)?;
                received_at = Moment::now();
            }
            if !self.about_to_read() {
                continue;
            }
            let message = link.next_push(Moment::now().after(TICK));
            self.shared.state.lock().reading = false;
            match message {
                Ok(message) => {
                    received_at = Moment::now();
                    if !self.handle_push(&message) {
                        return Err(unexpected_reply());
                    }
                }
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Records that a read begins. Returns false if there is something to do first.
    fn about_to_read(&self) -> bool {
        let mut state = self.shared.state.lock();
        state.reading = !state.stop && !state.channels.has_wanted();
        state.reading
    }

    /// Subscribes these channels, which are at most [`BATCH`], in one round trip. If the user may
    /// not subscribe to all of them, it takes a second one.
    fn subscribe(&mut self, link: &Arc<Link>, channels: &[Arc<str>]) -> RedisResult<()> {
        match link.publish() {
            Publish::ToAll => self.subscribe_by(link, "SUBSCRIBE", channels, BATCH),
            // In a cluster, the shard channels of a command have to be of one slot.
            Publish::ToShard => self.subscribe_by(link, "SSUBSCRIBE", channels, 1),
        }
    }

    /// Sends commands that subscribe `together` channels each, and receives their replies.
    fn subscribe_by(
        &mut self,
        link: &Arc<Link>,
        command: &str,
        channels: &[Arc<str>],
        together: usize,
    ) -> RedisResult<()> {
        let until = self.send(link, command, channels, together);
        for (at, channel) in channels.iter().enumerate() {
            match self.receive(link, command, channel, until) {
                Ok(()) => self.wake(|channels| channels.confirmed(channel, Moment::now())),
                Err(error) if at % together > 0 => return Err(error),
                Err(error) => match RetryAction::on(&error) {
                    RetryAction::Redirect => self.moved(channel),
                    // One refusal is the reply to the whole command.
                    RetryAction::Fail if together > 1 && channels.len() > 1 => {
                        return self.subscribe_by(link, command, channels, 1);
                    }
                    RetryAction::Fail => self.refused(channel, error),
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn refused(&mut self, channel: &Arc<str>, error: RedisError) {
        let now = Moment::now();
        self.shared.channels().refused(channel, now);
        if !std::mem::replace(&mut self.logged_refusal, true) {
            let channel = Arc::clone(channel);
            tell(move || {
                tracing::warn!(
                    %channel,
                    %error,
                    "the user may not subscribe to a channel; its waiting threads poll"
                );
            });
        }
    }

    fn unsubscribe(&self, link: &Arc<Link>, channels: &[Arc<str>]) -> RedisResult<()> {
        let (command, together) = match link.publish() {
            Publish::ToAll => ("UNSUBSCRIBE", BATCH),
            Publish::ToShard => ("SUNSUBSCRIBE", 1),
        };
        let until = self.send(link, command, channels, together);
        for channel in channels {
            match self.receive(link, command, channel, until) {
                // The channel has moved to another server, which ended the subscription.
                Err(error) if RetryAction::on(&error) == RetryAction::Redirect => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Sends a command that has one reply.
    fn exchange(&self, link: &Arc<Link>, command: &str, argument: &Arc<str>) -> RedisResult<()> {
        let until = self.send(link, command, std::slice::from_ref(argument), 1);
        self.receive(link, command, argument, until)
    }

    /// Sends a command for each `together` channels. Returns until when the replies have to arrive.
    fn send(
        &self,
        link: &Arc<Link>,
        command: &str,
        channels: &[Arc<str>],
        together: usize,
    ) -> Moment {
        let now = Moment::now();
        if !channels.is_empty() {
            let mut commands = redis::pipe();
            for channels in channels.chunks(together) {
                let channels: Vec<&str> = channels.iter().map(|channel| &**channel).collect();
                commands.cmd(command).arg(channels);
            }
            let packed = commands.get_packed_pipeline();
            link.send(0, now, |out| out.commands(0, &packed));
        }
        now.after(self.shared.context.redis.command_timeout)
    }

    /// Receives the reply to a command for one channel. Messages that arrive before it are
    /// delivered.
    ///
    /// The connection must not be used after a timeout, because the late reply could be taken for
    /// the reply to a later command.
    fn receive(
        &self,
        link: &Arc<Link>,
        command: &str,
        channel: &str,
        until: Moment,
    ) -> RedisResult<()> {
        loop {
            let reply = link.next_push(until)?;
            if is_reply_to(&reply, command, channel) {
                return Ok(());
            }
            if !self.handle_push(&reply) {
                return Err(unexpected_reply());
            }
        }
    }

    /// Handles data that no command requested: a message, or the end of a subscription whose
    /// channel has moved to another server. Returns false for anything else.
    fn handle_push(&self, reply: &Value) -> bool {
        let Some((kind, channel, text)) = parts_of(reply) else {
            return false;
        };
        match kind {
            "message" | "smessage" => {
                let mut name = channel;
                if *channel == *self.shared.context.control {
                    if let Some(key) = text.strip_prefix("freed ") {
                        (self.shared.context.on.freed)(key);
                    }
                    name = text;
                }
                let mut channels = self.shared.channels();
                let woken = channels.message(name, text, Moment::now());
                drop(channels);
                woken.iter().for_each(Listening::wake);
            }
            "sunsubscribe" => self.moved(channel),
            _ => return false,
        }
        true
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
    pub(super) fn wake(&self) {
        let _entered = self.prepared.as_ref().map(|prepared| prepared.send());
        self.unparker.unpark_by_message();
    }
}
