//! The listening loop: connect, subscribe what is wanted, read, wake; on any failure begin anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use redis::{Msg, RedisError, RedisResult, Value};

use super::Shared;
use crate::clock::Moment;
use crate::conn::{Advice, Node, Wire};
use crate::observe::tell;
use crate::wake::Waker;

/// The longest read: how late a lingering channel is dropped, and a missed interrupt made up for.
const TICK: Duration = Duration::from_secs(1);

/// After so long without a word from the server it is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(5);

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Between attempts where the server does not allow us to subscribe at all.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct Worker {
    shared: Arc<Shared>,
    node: Arc<Node>,
    connect_timeout: Duration,
    command_timeout: Duration,
    /// Before the next attempt to connect.
    pause: Duration,
    /// Attempts that failed since the last that did not.
    failures: u32,
    /// It was said that a channel is forbidden. There may be as many as there are locks.
    told_refusal: bool,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        node: Arc<Node>,
        connect_timeout: Duration,
        command_timeout: Duration,
    ) -> Self {
        Self {
            shared,
            node,
            connect_timeout,
            command_timeout,
            pause: FIRST_PAUSE,
            failures: 0,
            told_refusal: false,
        }
    }

    pub(super) fn run(mut self) {
        while !self.is_stopped() {
            // Should anything panic in it, that is the end of the connection, and of nothing else.
            let connection = catch_unwind(AssertUnwindSafe(|| self.serve()));
            let pause = match connection {
                Ok(Ok(())) => return,
                Ok(Err(error)) if Advice::on(&error) == Advice::Refuse => REFUSED_PAUSE,
                Ok(Err(_)) | Err(_) => self.pause,
            };
            // Whatever was published since the failure is missed.
            let woken = {
                let mut state = self.shared.state.lock();
                state.reading = false;
                state.registry.disconnected()
            };
            woken.iter().for_each(Waker::wake);
            self.rest(pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn is_stopped(&self) -> bool {
        self.shared.state.lock().stop
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
        let result = self.connect().and_then(|mut wire| {
            self.pause = FIRST_PAUSE;
            if std::mem::take(&mut self.failures) > 0 {
                self.shared.observer.reconnected(self.node.name());
            }
            self.listen(&mut wire)
        });
        if let Err(error) = &result {
            self.failures = self.failures.saturating_add(1);
            if self.failures == 1 {
                let node = self.node.name();
                tell(|| {
                    tracing::warn!(node, %error, "no subscription; locks are polled until there is one");
                });
            }
        }
        result
    }

    fn connect(&self) -> RedisResult<Wire> {
        let mut wire = self.node.open(self.connect_timeout)?;
        self.subscribe(&mut wire, &self.shared.control)?;
        Ok(wire)
    }

    /// Serves one connection; `Ok`: the client is gone.
    fn listen(&mut self, wire: &mut Wire) -> RedisResult<()> {
        let mut heard = Moment::now();
        loop {
            let expired = {
                let mut state = self.shared.state.lock();
                if state.stop {
                    return Ok(());
                }
                state.registry.expire(Moment::now())
            };
            for channel in expired {
                self.exchange(wire, "UNSUBSCRIBE", &channel)?;
            }
            while let Some(channel) = self.next_wanted() {
                self.subscribe_one(wire, &channel)?;
            }
            if heard.after(SILENCE).is_past() {
                self.exchange(wire, "PING", "")?;
                heard = Moment::now();
            }
            if !self.about_to_read() {
                continue;
            }
            wire.give(TICK);
            let message = wire.receive();
            self.shared.state.lock().reading = false;
            match message {
                Ok(message) => {
                    heard = Moment::now();
                    self.wake(&Msg::from_value(&message).ok_or_else(not_asked_for)?);
                }
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn next_wanted(&self) -> Option<Arc<str>> {
        self.shared.state.lock().registry.next_wanted()
    }

    /// False if there is something to do first.
    fn about_to_read(&self) -> bool {
        let mut state = self.shared.state.lock();
        state.reading = !state.stop && !state.registry.has_wanted();
        state.reading
    }

    fn subscribe_one(&mut self, wire: &mut Wire, channel: &Arc<str>) -> RedisResult<()> {
        match self.subscribe(wire, channel) {
            Ok(()) => {
                let confirmed = self.shared.state.lock().registry.confirmed(channel);
                let Some(woken) = confirmed else {
                    return self.exchange(wire, "UNSUBSCRIBE", channel);
                };
                woken.iter().for_each(Waker::wake);
                Ok(())
            }
            Err(error) if Advice::on(&error) == Advice::Refuse => {
                self.shared.state.lock().registry.refused(channel);
                if !std::mem::replace(&mut self.told_refusal, true) {
                    tell(|| {
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

    fn subscribe(&self, wire: &mut Wire, channel: &str) -> RedisResult<()> {
        self.exchange(wire, "SUBSCRIBE", channel)
    }

    /// Sends one command and waits for its reply; messages that come before it are delivered.
    ///
    /// After a time-out the connection is never used again: the next message would be taken for this
    /// reply.
    fn exchange(&self, wire: &mut Wire, command: &str, argument: &str) -> RedisResult<()> {
        wire.give(self.command_timeout);
        let mut request = redis::cmd(command);
        if !argument.is_empty() {
            request.arg(argument);
        }
        wire.send(&request.get_packed_command())?;
        loop {
            let reply = wire.receive()?;
            match Msg::from_value(&reply) {
                Some(message) => self.wake(&message),
                None if answers(&reply, command) => return Ok(()),
                None => return Err(not_asked_for()),
            }
        }
    }

    fn wake(&self, message: &Msg) {
        let woken = {
            let state = self.shared.state.lock();
            state.registry.message(message.get_channel_name()).to_vec()
        };
        woken.iter().for_each(Waker::wake);
    }
}

fn not_asked_for() -> RedisError {
    RedisError::from((redis::ErrorKind::Parse, "a reply that was not asked for"))
}

/// `["subscribe", channel, count]`, `["pong", ""]` and the like.
fn answers(reply: &Value, command: &str) -> bool {
    let kind = match command {
        "PING" => "pong",
        other => other,
    };
    match reply {
        Value::Array(parts) => matches!(
            parts.first(),
            Some(Value::BulkString(name)) if name.eq_ignore_ascii_case(kind.as_bytes())
        ),
        _ => false,
    }
}
