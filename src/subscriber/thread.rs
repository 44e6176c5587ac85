//! The listening loop: connect, subscribe what is wanted, read, wake; on any failure begin anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::shared::{Context, Shared};
use crate::base::backoff::Backoff;
use crate::base::clock::Moment;
use crate::base::parker::Unparker;
use crate::observe::tell;
use crate::script::Publish;
use crate::transport::connection::Connection;
use crate::transport::retry_action::RetryAction;

/// The longest read: how late a lingering channel is dropped, and a missed interrupt made up for.
const TICK: Duration = Duration::from_secs(1);

/// After so long without a word from the server it is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(5);

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Between attempts where the server does not allow us to subscribe at all.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct SubscriberThread {
    shared: Arc<Shared>,
    context: Arc<Context>,
    /// Between attempts to connect.
    pauses: Backoff,
    /// Attempts that failed since the last that did not.
    failures: u32,
    /// The last one was forbidden.
    refused: bool,
    /// It was said that a channel is forbidden. There may be as many as there are locks.
    told_refusal: bool,
}

impl SubscriberThread {
    pub(super) fn new(shared: Arc<Shared>, context: Arc<Context>) -> Self {
        Self {
            shared,
            context,
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            failures: 0,
            refused: false,
            told_refusal: false,
        }
    }

    pub(super) fn run(mut self) {
        while !self.is_over() {
            // Should anything panic in it, that is the end of the connection, and of nothing else.
            let connection = catch_unwind(AssertUnwindSafe(|| self.serve()));
            self.refused = match connection {
                Ok(Ok(())) => return,
                Ok(Err(error)) => RetryAction::on(&error) == RetryAction::Refuse,
                Err(_) => false,
            };
            // Whatever was published since the failure is missed.
            let woken = {
                let mut state = self.shared.state.lock();
                state.reading = false;
                state.channels.expire(Moment::now());
                state.channels.disconnected()
            };
            woken.iter().for_each(Unparker::unpark);
            let pause = self.pauses.next();
            self.rest(if self.refused { REFUSED_PAUSE } else { pause });
        }
    }

    /// The client is gone; or nobody listens at a server that is not to be reached, which may never
    /// come back. Where listening is forbidden the thread stays, so that this is told once.
    fn is_over(&self) -> bool {
        let mut state = self.shared.state.lock();
        let deserted = self.failures > 0 && !self.refused && state.channels.is_empty();
        state.running = !(state.stop || deserted);
        !state.running
    }

    fn rest(&self, pause: Duration) {
        let end = Moment::now().after(pause);
        let mut state = self.shared.state.lock();
        while !state.stop && !end.is_past() {
            self.shared.stopped.wait_for(&mut state, end.left());
        }
    }

    /// Opens a connection and serves it; `Ok`: the client is gone.
    fn serve(&mut self) -> RedisResult<()> {
        let result = self.connect().and_then(|mut connection| {
            self.pauses.reset();
            if std::mem::take(&mut self.failures) > 0 {
                let context = &self.context;
                context.observer.reconnected(self.shared.server.name());
            }
            self.listen(&mut connection)
        });
        if let Err(error) = &result {
            self.failures = self.failures.saturating_add(1);
            if self.failures == 1 {
                let (node, error) = (Arc::clone(self.shared.server.name()), error.clone());
                tell(move || {
                    tracing::warn!(%node, %error, "no subscription; locks are polled until there is one");
                });
            }
        }
        result
    }

    fn connect(&self) -> RedisResult<Connection> {
        let Context {
            control,
            connect_timeout,
            ..
        } = &*self.context;
        let mut connection = self.shared.server.node.open(*connect_timeout)?;
        self.exchange(&mut connection, "SUBSCRIBE", control)?;
        Ok(connection)
    }

    /// Serves one connection; `Ok`: the client is gone.
    fn listen(&mut self, connection: &mut Connection) -> RedisResult<()> {
        let mut heard = Moment::now();
        loop {
            let expired = {
                let mut state = self.shared.state.lock();
                if state.stop {
                    return Ok(());
                }
                state.channels.expire(Moment::now())
            };
            for channel in expired {
                self.unsubscribe(connection, &channel)?;
            }
            while let Some(channel) = self.next_wanted() {
                self.subscribe_one(connection, &channel)?;
            }
            if heard.after(SILENCE).is_past() {
                self.exchange(connection, "PING", "")?;
                heard = Moment::now();
            }
            if !self.about_to_read() {
                continue;
            }
            connection.set_time_limit(TICK);
            let message = connection.receive();
            self.shared.state.lock().reading = false;
            match message {
                Ok(message) => {
                    heard = Moment::now();
                    if !self.hear(&message) {
                        return Err(not_asked_for());
                    }
                }
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn next_wanted(&self) -> Option<Arc<str>> {
        self.shared.state.lock().channels.next_wanted()
    }

    /// False if there is something to do first.
    fn about_to_read(&self) -> bool {
        let mut state = self.shared.state.lock();
        state.reading = !state.stop && !state.channels.has_wanted();
        state.reading
    }

    fn subscribe_one(
        &mut self,
        connection: &mut Connection,
        channel: &Arc<str>,
    ) -> RedisResult<()> {
        match self.subscribe(connection, channel) {
            Ok(()) => {
                let confirmed = self.shared.state.lock().channels.confirmed(channel);
                let Some(woken) = confirmed else {
                    return self.unsubscribe(connection, channel);
                };
                woken.iter().for_each(Unparker::unpark);
                Ok(())
            }
            Err(error) if RetryAction::on(&error) == RetryAction::Redirect => {
                self.moved(channel);
                Ok(())
            }
            Err(error) if RetryAction::on(&error) == RetryAction::Refuse => {
                self.shared.state.lock().channels.refused(channel);
                if !std::mem::replace(&mut self.told_refusal, true) {
                    let channel = Arc::clone(channel);
                    tell(move || {
                        tracing::warn!(
                            %channel,
                            %error,
                            "a channel may not be subscribed; its lock is polled, and so is every such lock"
                        );
                    });
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn subscribe(&self, connection: &mut Connection, channel: &str) -> RedisResult<()> {
        let command = match connection.publish() {
            Publish::ToAll => "SUBSCRIBE",
            Publish::ToShard => "SSUBSCRIBE",
        };
        self.exchange(connection, command, channel)
    }

    fn unsubscribe(&self, connection: &mut Connection, channel: &str) -> RedisResult<()> {
        let command = match connection.publish() {
            Publish::ToAll => "UNSUBSCRIBE",
            Publish::ToShard => "SUNSUBSCRIBE",
        };
        match self.exchange(connection, command, channel) {
            // There is no such subscription any more.
            Err(error) if RetryAction::on(&error) == RetryAction::Redirect => Ok(()),
            result => result,
        }
    }

    /// Sends one command and waits for its reply; messages that come before it are delivered.
    ///
    /// After a time-out the connection is never used again: the next message would be taken for this
    /// reply.
    fn exchange(
        &self,
        connection: &mut Connection,
        command: &str,
        argument: &str,
    ) -> RedisResult<()> {
        connection.set_time_limit(self.context.command_timeout);
        let mut request = redis::cmd(command);
        if !argument.is_empty() {
            request.arg(argument);
        }
        connection.send(&request.get_packed_command())?;
        loop {
            let reply = connection.receive()?;
            if answers(&reply, command, argument) {
                return Ok(());
            }
            if !self.hear(&reply) {
                return Err(not_asked_for());
            }
        }
    }

    /// What comes without being asked for: a message, or the end of a subscription whose channel has
    /// moved to another server. False if it is neither.
    fn hear(&self, reply: &Value) -> bool {
        let Some((kind, channel)) = kind_and_channel(reply) else {
            return false;
        };
        match kind {
            b"message" | b"smessage" => {
                let woken = self.shared.state.lock().channels.message(channel).to_vec();
                woken.iter().for_each(Unparker::unpark);
            }
            b"sunsubscribe" => self.moved(channel),
            _ => return false,
        }
        true
    }

    /// Those who listen try again, are told by that where the lock is now, and listen there.
    fn moved(&self, channel: &str) {
        let woken = self.shared.state.lock().channels.moved(channel);
        woken.iter().for_each(Unparker::unpark);
    }
}

fn not_asked_for() -> RedisError {
    RedisError::from((redis::ErrorKind::Parse, "a reply that was not asked for"))
}

/// Of `["message", channel, text]`, `["subscribe", channel, count]`, `["pong", ""]` and the like.
fn kind_and_channel(reply: &Value) -> Option<(&[u8], &str)> {
    match reply {
        Value::Array(parts) => match &parts[..] {
            [Value::BulkString(kind), Value::BulkString(channel), ..] => {
                Some((kind, std::str::from_utf8(channel).ok()?))
            }
            _ => None,
        },
        _ => None,
    }
}

fn answers(reply: &Value, command: &str, argument: &str) -> bool {
    let kind = match command {
        "PING" => "pong",
        other => other,
    };
    kind_and_channel(reply).is_some_and(|(found, channel)| {
        found.eq_ignore_ascii_case(kind.as_bytes()) && channel == argument
    })
}
