//! The requests of the watchdog: many at once, on links of its own.

use std::sync::atomic::Ordering;

use redis::{RedisResult, Value};

use super::attempt::Attempt;
use super::client::RedisClient;
use super::state::{Request, RequestState};
use crate::base::{List, LockKey, Moment};
use crate::script::Call;
use crate::transport::links::Purpose;
use crate::transport::retry_action::RetryAction;

/// A reply or why there is none, and the moment before the request was sent.
pub(crate) type Replied = (RedisResult<Value>, Moment);

impl RedisClient {
    /// Sends all requests of one thread, each about one lock, and those to one server together.
    /// Waits for the replies until `until`. A server that does not reply costs the others nothing
    /// once it is connected, and at most a share of the time before.
    ///
    /// What no lease depends on goes on the links of the callers, so that a client that only waits
    /// opens no link for it.
    pub(crate) fn request_many(
        &self,
        purpose: Purpose,
        requests: Vec<(&LockKey, Call)>,
        until: Moment,
    ) -> Vec<Replied> {
        let requests: Vec<Request<'_>> = requests
            .into_iter()
            .map(|(lock, call)| Request::new(self, lock, call))
            .collect();
        let mut states: Vec<RequestState<'_>> = requests.iter().map(RequestState::new).collect();
        Attempt::new(&mut states, purpose, until, &mut |_| None).run(List::new());
        states.iter().for_each(|state| state.announce(until));
        let replied = states.into_iter().map(|state| self.replied(state));
        replied.collect()
    }

    /// Records whether the server of a request was reached.
    fn replied(&self, state: RequestState<'_>) -> Replied {
        let server = self.topology.last_known(state.request.lock);
        let replied = state.into_replied();
        let is_reply = replied.0.as_ref().err().is_none_or(RetryAction::is_refusal);
        if let Some(server) = server {
            let was_unreached = server.is_unreached.swap(!is_reply, Ordering::Relaxed);
            if was_unreached && is_reply {
                self.observer.reconnected(server.name());
            }
        }
        replied
    }

    /// Whether the server that has the lock is not known, or did not reply to the last request.
    pub(crate) fn may_not_reply(&self, lock: &LockKey) -> bool {
        let server = self.topology.known(lock);
        server.is_none_or(|server| server.health.is_unresponsive())
    }
}
