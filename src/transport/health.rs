//! The health of one server: the only record of whether it replies, and the circuit breaker.

use std::time::Duration;

use parking_lot::Mutex;
use redis::RedisError;

use crate::base::{Backoff, Moment};
use crate::transport::retry_action::RetryAction;

/// The pauses of the circuit breaker.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(3));

/// How late a reply may be because of the machine alone.
const SHORTEST_GRACE: Duration = Duration::from_millis(10);

/// After this time without a reply, the outage of a server is reported.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// What is known of a server from the requests that were sent to it.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<HealthState>);

/// Its mutex protects this invariant: of all threads that come after a pause of the circuit
/// breaker, one sends a request.
#[derive(Debug, Default)]
struct HealthState {
    trust: Trust,
    /// When the topology said last that the locks are on this server.
    confirmed_at: Moment,
    /// The current pause of the circuit breaker. Zero: the last request had a reply.
    pause: Duration,
    /// When the pause ends.
    until: Moment,
    /// A caller was let through after the pause, and its outcome is not known yet.
    probing: bool,
    /// When the last reply arrived.
    last_reply: Moment,
    /// Since when there is no reply, if a request had none since the last reply.
    silent_since: Option<Moment>,
    /// The outage was reported.
    is_reported: bool,
    /// How long its replies take, rather too long than too short; `None` before the first.
    usual: Option<Duration>,
}

/// Whether another server may have its locks by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    #[default]
    Full,
    /// A connection could not be opened. Those that are open may be as good as before.
    Unreached,
    /// An established connection broke, or a reply said why it is of no use.
    Broken,
}

impl HealthState {
    /// Begins a pause of the circuit breaker. A request that fails during one does not prolong it.
    fn pause_again(&mut self, now: Moment) {
        if std::mem::take(&mut self.probing) || now >= self.until {
            self.pause = BACKOFF.after(self.pause);
            self.until = now.after(self.pause);
        }
    }
}

impl Health {
    /// Whether another server may have its locks by now.
    pub(crate) fn is_suspect(&self) -> bool {
        self.0.lock().trust != Trust::Full
    }

    /// True unless an established connection broke or a reply showed that none is of use.
    pub(crate) fn may_be_used(&self) -> bool {
        self.0.lock().trust != Trust::Broken
    }

    /// The topology says that the locks are on this server.
    pub(crate) fn confirm(&self) {
        let mut state = self.0.lock();
        (state.trust, state.confirmed_at) = (Trust::Full, Moment::now());
    }

    /// Whether the last request had no reply.
    pub(crate) fn is_unresponsive(&self) -> bool {
        !self.0.lock().pause.is_zero()
    }

    /// Whether the circuit breaker skips the server this time. After each pause one caller may
    /// send a request, whose outcome decides for all.
    pub(crate) fn skips(&self) -> bool {
        let mut state = self.0.lock();
        if state.pause.is_zero() {
            return false;
        }
        let now = Moment::now();
        if now < state.until {
            return true;
        }
        state.until = now.after(state.pause);
        state.probing = true;
        false
    }

    /// Records a reply that arrived `at` this moment, and how long it took. Returns how long an
    /// outage lasted that was reported and has ended now.
    pub(crate) fn replied(&self, at: Moment, took: Duration) -> Option<Duration> {
        let mut state = self.0.lock();
        state.probing = false;
        state.pause = Duration::ZERO;
        let usual = state.usual.unwrap_or_default();
        state.usual = Some((usual - usual / 8).max(took));
        state.last_reply = state.last_reply.max(at);
        let since = state.silent_since.take();
        let was_reported = std::mem::take(&mut state.is_reported);
        since.filter(|_| was_reported).map(|since| at.since(since))
    }

    /// Records what a failure says of the route to the server. It is about `all` connections, or
    /// about one that could not be opened. What failed began at `since`: a server that was
    /// confirmed later is trusted.
    pub(crate) fn failed(&self, error: &RedisError, all: bool, since: Moment) {
        if RetryAction::on(error).invalidates_route() {
            let trust = if all { Trust::Broken } else { Trust::Unreached };
            let mut state = self.0.lock();
            if since >= state.confirmed_at {
                state.trust = state.trust.max(trust);
            }
        }
    }

    /// Records that a request from `since` got no reply in its time, or could not be sent. Returns
    /// for how long there was no reply, if this has to be reported: once in each outage.
    pub(crate) fn unanswered(&self, since: Moment) -> Option<Duration> {
        let mut state = self.0.lock();
        let now = Moment::now();
        state.pause_again(now);
        let since = since.max(state.last_reply);
        let silence = now.since(*state.silent_since.get_or_insert(since));
        let is_long = silence >= REPORT_AFTER;
        (is_long && !std::mem::replace(&mut state.is_reported, true)).then_some(silence)
    }

    /// How much later than the replies of other servers its reply may be: twice what its replies
    /// take, or `unknown` if it never gave one. It grows with each pause, so that a server that has
    /// become slow is used again.
    pub(crate) fn grace(&self, unknown: Duration) -> Duration {
        let state = self.0.lock();
        let usual = state.usual.map_or(unknown, |usual| usual * 2);
        usual.max(state.pause / 8).max(SHORTEST_GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Health {
        /// A request fails after the pause.
        fn fails_again(&self) {
            self.0.lock().until = Moment::ZERO;
            self.unanswered(Moment::now());
        }
    }

    #[test]
    fn one_caller_is_let_through_after_each_pause_until_there_is_a_reply() {
        let health = Health::default();
        assert!(!health.skips() && !health.is_unresponsive());
        health.unanswered(Moment::now());
        assert!(health.skips() && health.is_unresponsive());
        health.0.lock().until = Moment::ZERO;
        assert!(!health.skips(), "the first after the pause");
        assert!(health.skips(), "the second");
        health.replied(Moment::now(), Duration::ZERO);
        assert!(!health.skips() && !health.is_unresponsive());
    }

    #[test]
    fn a_server_that_is_always_slow_is_given_its_time() {
        let (health, unknown) = (Health::default(), Duration::from_millis(250));
        let (slow, quick) = (Duration::from_millis(30), Duration::from_millis(1));
        assert_eq!(health.grace(unknown), unknown);
        health.replied(Moment::now(), slow);
        assert_eq!(health.grace(unknown), slow * 2);
        for _ in 0..50 {
            health.replied(Moment::now(), quick);
        }
        assert_eq!(health.grace(unknown), SHORTEST_GRACE);
        (0..8).for_each(|_| health.fails_again());
        assert!(health.grace(unknown) > slow * 2, "it may have become slow");
    }

    #[test]
    fn pauses_grow_with_each_failure_after_a_pause() {
        let health = Health::default();
        let pauses: Vec<Duration> = (0..8)
            .map(|_| {
                health.fails_again();
                health.unanswered(Moment::now());
                health.0.lock().pause
            })
            .collect();
        assert_eq!(pauses[0], Duration::from_millis(100));
        assert!(pauses.is_sorted() && pauses[7] == Duration::from_secs(3));
    }

    #[test]
    fn a_connection_that_cannot_be_opened_says_nothing_of_the_open_ones() {
        let health = Health::default();
        let cut = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        health.failed(&cut, false, Moment::now());
        assert!(health.is_suspect() && health.may_be_used());
        health.failed(&cut, true, Moment::now());
        assert!(!health.may_be_used());
        health.failed(&cut, false, Moment::now());
        assert!(!health.may_be_used(), "until the server is confirmed");
        let before = Moment::now();
        health.confirm();
        health.failed(&cut, true, before.before(Duration::from_nanos(1)));
        assert!(!health.is_suspect() && health.may_be_used());
    }

    #[test]
    fn an_outage_is_reported_once_after_a_second_without_any_reply() {
        let health = Health::default();
        let began = Moment::now();
        let ago = |millis| began.before(Duration::from_millis(millis));
        assert_eq!(health.unanswered(ago(900)), None, "too short");
        health.replied(ago(500), Duration::ZERO);
        // Other requests had a reply meanwhile.
        assert_eq!(health.unanswered(ago(3_000)), None);
        health.0.lock().last_reply = ago(3_000);
        health.0.lock().silent_since = None;
        let silence = health.unanswered(ago(2_000)).expect("two seconds");
        assert!(silence >= Duration::from_secs(2), "{silence:?}");
        assert_eq!(health.unanswered(ago(1_500)), None, "reported");
        let ended = began.after(Duration::from_secs(4));
        let lasted = health.replied(ended, Duration::ZERO);
        assert_eq!(lasted, Some(Duration::from_secs(6)));
        assert_eq!(health.replied(ended, Duration::ZERO), None);
    }
}
