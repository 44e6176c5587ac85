//! One connection to a server: whatever is asked on it is answered within its time, or fails.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use redis::{Parser, RedisError, RedisResult, Value};

use crate::base::clock::Moment;
use crate::script::{Call, Publish};
use crate::transport::retry_action::RetryAction;
use crate::transport::socket::Socket;

/// A connection that was idle for longer is opened anew: what stands between may have dropped it
/// without a word, and finding that out costs a whole time-out.
const FRESH: Duration = Duration::from_secs(60);

/// A connection in a known state. After any failure but a reply from the server it must be dropped:
/// a late reply, or half a command, would be taken for part of the next exchange.
pub(crate) struct Connection {
    socket: Socket,
    parser: Parser,
    used: Moment,
    /// A reply has come on it.
    established: bool,
    publish: Publish,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("socket", &self.socket)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(socket: Socket, publish: Publish) -> Self {
        Self {
            socket,
            parser: Parser::new(),
            used: Moment::now(),
            established: false,
            publish,
        }
    }

    /// All that is sent and received from here on takes `time` at most.
    pub(crate) fn set_time_limit(&mut self, time: Duration) {
        self.socket.set_time_limit(time);
    }

    pub(crate) fn send(&mut self, packed: &[u8]) -> RedisResult<()> {
        Ok(self.socket.write_all(packed)?)
    }

    /// The next reply; an error reply is an error. What has arrived of a reply when the time is over
    /// stays, so that one who only listens can go on listening.
    pub(crate) fn receive(&mut self) -> RedisResult<Value> {
        let reply = self.parser.parse_value(&mut self.socket)?;
        self.used = Moment::now();
        self.established = true;
        reply.extract_error()
    }

    /// Whether a reply has come on it. Before that, its failure can mean that the server accepted
    /// it and closed it again, because it has too many clients.
    pub(crate) fn is_established(&self) -> bool {
        self.established
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
        asking: bool,
        time: impl Fn() -> Duration,
    ) -> Result<Value, Broken> {
        match self.exchange(call.by_hash(self.publish), asking, time()) {
            Err(Broken::Receiving(error)) if RetryAction::on(&error) == RetryAction::SendSource => {
                self.exchange(call.by_source(self.publish), asking, time())
            }
            reply => reply,
        }
    }

    fn exchange(&mut self, packed: Vec<u8>, asking: bool, time: Duration) -> Result<Value, Broken> {
        self.set_time_limit(time);
        self.send(&if asking { self::asking(packed) } else { packed })
            .map_err(Broken::Sending)?;
        if asking {
            self.receive().map_err(Broken::OutOfStep)?;
        }
        self.receive().map_err(Broken::Receiving)
    }

    /// How many replicas have what was written on this connection, once `wanted` have it or `budget` is
    /// over. Asked on the connection that wrote it, because Redis counts for each apart.
    pub(crate) fn replicate(
        &mut self,
        wanted: u32,
        budget: Duration,
        for_reply: Duration,
    ) -> RedisResult<u32> {
        // Zero would mean for ever.
        let millis = budget.as_millis().max(1).to_string();
        let wait = redis::cmd("WAIT")
            .arg(wanted)
            .arg(millis)
            .get_packed_command();
        self.set_time_limit(budget.saturating_add(for_reply));
        self.send(&wait)?;
        redis::from_redis_value(self.receive()?).map_err(Into::into)
    }

    /// How releases are announced on it.
    pub(crate) fn publish(&self) -> Publish {
        self.publish
    }

    pub(crate) fn is_fresh(&self) -> bool {
        Moment::now().since(self.used) < FRESH
    }
}

/// A request for a slot that moves to the server that is asked; it gets a reply more.
pub(crate) fn asking(request: Vec<u8>) -> Vec<u8> {
    let mut both = redis::cmd("ASKING").get_packed_command();
    both.extend(request);
    both
}

/// Where an exchange failed. After `Sending`, half a request may be on its way; after `Receiving`
/// the whole of it is.
#[derive(Debug)]
pub(crate) enum Broken {
    Sending(RedisError),
    /// The first of two replies was an error; the second is still to come, and would be taken for that to
    /// the next request.
    OutOfStep(RedisError),
    Receiving(RedisError),
}
