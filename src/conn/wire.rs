//! One connection to a server: whatever is asked on it is answered within its time, or fails.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use redis::{ConnectionAddr, Parser, RedisError, RedisResult, Value};

use crate::clock::Moment;
use crate::config::Config;
use crate::conn::advice::Advice;
use crate::conn::socket::Socket;
use crate::error::Result;
use crate::script::Call;
use crate::tls::Tls;

/// A connection that was idle for longer is opened anew: what stands between may have dropped it
/// without a word, and finding that out costs a whole time-out.
const FRESH: Duration = Duration::from_secs(60);

/// A server, and how to get to it.
pub(crate) struct Node {
    address: ConnectionAddr,
    tls: Option<Tls>,
    name: Box<str>,
    /// What is sent first on every connection, and how many replies it gets.
    log_in: Vec<u8>,
    log_in_replies: usize,
}

impl Node {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let address = config.server.addr().clone();
        let name = address.to_string();
        let settings = config.server.redis_settings();
        let mut log_in = redis::pipe();
        if let Some(password) = settings.password() {
            let auth = log_in.cmd("AUTH");
            if let Some(user) = settings.username() {
                auth.arg(user);
            }
            auth.arg(password);
        }
        if settings.db() != 0 {
            log_in.cmd("SELECT").arg(settings.db());
        }
        Ok(Self {
            address,
            tls: config.tls.clone(),
            name: name.into(),
            log_in_replies: log_in.len(),
            log_in: log_in.get_packed_pipeline(),
        })
    }

    /// `host:port` or the socket's path, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Opens a connection and logs in, within `time`.
    pub(crate) fn open(&self, time: Duration) -> RedisResult<Wire> {
        let deadline = Moment::now().after(time);
        let mut wire = Wire {
            socket: Socket::connect(&self.address, self.tls.as_ref(), time)?,
            parser: Parser::new(),
            used: Moment::now(),
        };
        if self.log_in_replies > 0 {
            wire.give(deadline.left());
            wire.send(&self.log_in)?;
        }
        for _ in 0..self.log_in_replies {
            wire.receive()?;
        }
        Ok(wire)
    }
}

/// Its name only: what it is made of holds the password.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.name).finish()
    }
}

/// A connection in a known state. After any failure but a reply from the server it must be dropped:
/// a late reply, or half a command, would be taken for part of the next exchange.
pub(crate) struct Wire {
    socket: Socket,
    parser: Parser,
    used: Moment,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("socket", &self.socket)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Wire {
    /// All that is sent and received from here on takes `time` at most.
    pub(crate) fn give(&mut self, time: Duration) {
        self.socket.give(time);
    }

    pub(crate) fn send(&mut self, packed: &[u8]) -> RedisResult<()> {
        Ok(self.socket.write_all(packed)?)
    }

    /// The next reply; an error reply is an error. What has arrived of a reply when the time is over
    /// stays, so that one who only listens can go on listening.
    pub(crate) fn receive(&mut self) -> RedisResult<Value> {
        let reply = self.parser.parse_value(&mut self.socket)?;
        self.used = Moment::now();
        reply.extract_error()
    }

    /// Whether a reply to what was sent last has begun to arrive: then the server has done it.
    pub(crate) fn is_answered(&self) -> bool {
        self.socket.is_answered()
    }

    /// Runs a script by its hash, and by its source if the server does not know it. Each of the two
    /// may take what `time` gives it then.
    pub(crate) fn run(
        &mut self,
        call: &Call,
        time: impl Fn() -> Duration,
    ) -> Result<Value, Broken> {
        match self.exchange(&call.by_hash(), time()) {
            Err(Broken::Receiving(error)) if Advice::on(&error) == Advice::SendSource => {
                self.exchange(&call.by_source(), time())
            }
            reply => reply,
        }
    }

    fn exchange(&mut self, packed: &[u8], time: Duration) -> Result<Value, Broken> {
        self.give(time);
        self.send(packed).map_err(Broken::Sending)?;
        self.receive().map_err(Broken::Receiving)
    }

    pub(crate) fn is_fresh(&self) -> bool {
        Moment::now().since(self.used) < FRESH
    }
}

/// Where an exchange failed. After `Sending`, half a request may be on its way; after `Receiving`
/// the whole of it is.
#[derive(Debug)]
pub(crate) enum Broken {
    Sending(RedisError),
    Receiving(RedisError),
}
