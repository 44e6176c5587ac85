//! One connection to a server: every read and every write on it has a time-out.

use std::fmt;
use std::time::Duration;

use redis::{Client, Connection, RedisError, RedisResult, Value};

use crate::clock::Moment;
use crate::config::Config;
use crate::conn::advice::Advice;
use crate::error::{Error, Result};
use crate::script::Call;

/// Sockets take no time-out of zero.
const SHORTEST: Duration = Duration::from_millis(1);

/// A connection that was idle for longer is opened anew: what stands between may have dropped it
/// without a word, and finding that out costs a whole time-out.
const FRESH: Duration = Duration::from_secs(60);

/// A server, and how to get to it.
pub(crate) struct Node {
    client: Client,
    name: Box<str>,
    /// Replies that opening a connection waits for.
    log_in_replies: u32,
}

impl Node {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let settings = config
            .server
            .redis_settings()
            .clone()
            .set_skip_set_lib_name();
        // Without the keep-alive a peer that vanished is noticed by nobody who only listens.
        let tcp = redis::io::tcp::TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(redis::io::tcp::socket2::TcpKeepalive::new());
        let name = config.server.addr().to_string();
        let log_in_replies =
            u32::from(settings.password().is_some()) + u32::from(settings.db() != 0);
        let info = config
            .server
            .clone()
            .set_redis_settings(settings)
            .set_tcp_settings(tcp);
        let client = Client::open(info).map_err(|error| Error::Config {
            field: "url",
            value: name.clone(),
            rule: error.to_string(),
        })?;
        Ok(Self {
            client,
            name: name.into(),
            log_in_replies,
        })
    }

    /// `host:port` or the socket's path, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Opens a connection within `time`.
    pub(crate) fn open(&self, time: Duration) -> RedisResult<Wire> {
        // `redis` gives the whole time to each reply of the log-in, so each gets a share of it.
        let share = (time / self.log_in_replies.max(1)).max(SHORTEST);
        let connection = self.client.get_connection_with_timeout(share)?;
        // Opened like this, a connection has no time-outs any more.
        let wire = Wire {
            connection,
            timeout: Duration::ZERO,
            used: Moment::now(),
        };
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
    connection: Connection,
    timeout: Duration,
    used: Moment,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("timeout", &self.timeout)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Wire {
    /// Bounds each read and write from here on.
    pub(crate) fn limit(&mut self, timeout: Duration) -> RedisResult<()> {
        let timeout = timeout.max(SHORTEST);
        if self.timeout != timeout {
            self.connection.set_read_timeout(Some(timeout))?;
            self.connection.set_write_timeout(Some(timeout))?;
            self.timeout = timeout;
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, packed: &[u8]) -> RedisResult<()> {
        self.connection.send_packed_command(packed)
    }

    /// The next reply; an error reply is an error.
    pub(crate) fn receive(&mut self) -> RedisResult<Value> {
        let reply = self.connection.recv_response()?;
        self.used = Moment::now();
        reply.extract_error()
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
        self.limit(time).map_err(Broken::Sending)?;
        self.send(packed).map_err(Broken::Sending)?;
        self.receive().map_err(Broken::Receiving)
    }

    pub(crate) fn is_fresh(&self) -> bool {
        Moment::now().since(self.used) < FRESH
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// Where an exchange failed. After `Sending`, half a request may be on its way; after `Receiving`
/// the whole of it is.
#[derive(Debug)]
pub(crate) enum Broken {
    Sending(RedisError),
    Receiving(RedisError),
}
