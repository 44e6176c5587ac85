//! The way to Redis for the watchdog: many requests at once, on connections of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::{RedisResult, Value};

use super::attempt::Attempt;
use super::client::RedisClient;
use super::state::{Request, RequestState};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::script::Call;
use crate::transport::links::Purpose;
use crate::transport::retry_action::RetryAction;

/// Sends the requests of one thread, those to one server together. A server that does not reply
/// costs the others nothing once it is connected, and at most a share of the time before.
#[derive(Debug)]
pub(crate) struct BatchClient {
    pub(crate) redis: Arc<RedisClient>,
}

/// A reply or why there is none, and the moment before the request was sent.
pub(crate) type Replied = (RedisResult<Value>, Moment);

impl BatchClient {
    pub(crate) fn new(redis: Arc<RedisClient>) -> Self {
        Self { redis }
    }

    /// Sends all requests, each about one lock, and waits for the replies until `until`.
    pub(crate) fn request(&self, requests: Vec<(&LockKey, Call)>, until: Moment) -> Vec<Replied> {
        self.send(Purpose::Watchdog, requests, until)
    }

    /// As [`request`](Self::request), on the links of the callers: for what no lease depends on, so
    /// that a client that only waits opens no link for it.
    pub(crate) fn request_on_shared_links(
        &self,
        requests: Vec<(&LockKey, Call)>,
        until: Moment,
    ) -> Vec<Replied> {
        self.send(Purpose::Caller, requests, until)
    }

    fn send(
        &self,
        purpose: Purpose,
        requests: Vec<(&LockKey, Call)>,
        until: Moment,
    ) -> Vec<Replied> {
        let redis = Arc::clone(&self.redis);
        let requests: Vec<Request<'_>> = requests
            .into_iter()
            .map(|(lock, call)| Request::new(&redis, lock, call))
            .collect();
        let mut states: Vec<RequestState<'_>> = requests.iter().map(RequestState::new).collect();
        Attempt::new(&mut states, purpose, until, &mut |_| None).run(List::new());
        let replied = states.into_iter().map(|state| self.finish(state));
        replied.collect()
    }

    fn finish(&self, state: RequestState<'_>) -> Replied {
        let server = self.redis.topology.last_known(state.request.lock);
        let replied = state.into_replied();
        let is_reply = replied.0.as_ref().err().is_none_or(RetryAction::is_refusal);
        if let Some(server) = server {
            let was_unreached = server.is_unreached.swap(!is_reply, Ordering::Relaxed);
            if was_unreached && is_reply {
                self.redis.observer.reconnected(server.name());
            }
        }
        replied
    }

    /// Whether the server that has the lock, as far as is known, did not reply to the last request.
    pub(crate) fn is_unresponsive(&self, key: &LockKey) -> bool {
        let server = self.redis.topology.known(key);
        server.is_none_or(|server| server.health.is_unresponsive())
    }

    /// The number of servers that have locks, as far as is known.
    pub(crate) fn servers(&self) -> usize {
        self.redis.topology.last_known_servers().len().max(1)
    }
}
