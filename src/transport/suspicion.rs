//! Servers that did not answer lately are left alone for a while by those who can do without them.

use std::time::Duration;

use parking_lot::Mutex;

use crate::base::clock::Moment;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// What the machine itself may cost.
const SHORTEST_GRACE: Duration = Duration::from_millis(10);

/// Whether a client's server is worth asking where others can be asked instead.
#[derive(Debug, Default)]
pub(crate) struct Suspicion(Mutex<State>);

/// Its mutex protects: of all threads that come when a pause is over, one asks.
#[derive(Debug)]
struct State {
    /// Zero: the last request was answered.
    pause: Duration,
    until: Moment,
    /// How long its answers take, rather too long than too short; `None` before the first.
    usual: Option<Duration>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            pause: Duration::ZERO,
            until: Moment::ZERO,
            usual: None,
        }
    }
}

impl Suspicion {
    /// It did not answer lately.
    pub(crate) fn is_raised(&self) -> bool {
        !self.0.lock().pause.is_zero()
    }

    /// It is to be left out this time. After a pause the first who comes asks, and settles it for all.
    pub(crate) fn leaves_out(&self) -> bool {
        let mut state = self.0.lock();
        if state.pause.is_zero() {
            return false;
        }
        let now = Moment::now();
        if now < state.until {
            return true;
        }
        state.until = now.after(state.pause);
        false
    }

    pub(crate) fn answered(&self, took: Duration) {
        let mut state = self.0.lock();
        state.pause = Duration::ZERO;
        let usual = state.usual.unwrap_or_default();
        state.usual = Some((usual - usual / 8).max(took));
    }

    /// How much later than the others it may be without being suspected: twice what its answers take, `unknown`
    /// if it never gave one, and the longer the more often it was left out, so that one that has become
    /// slow is not left out for ever.
    pub(crate) fn grace(&self, unknown: Duration) -> Duration {
        let state = self.0.lock();
        let usual = state.usual.map_or(unknown, |usual| usual * 2);
        usual.max(state.pause / 8).max(SHORTEST_GRACE)
    }

    pub(crate) fn unanswered(&self) {
        let mut state = self.0.lock();
        state.pause = (state.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        state.until = Moment::now().after(state.pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_asks_after_each_pause_until_there_is_an_answer() {
        let suspicion = Suspicion::default();
        assert!(!suspicion.leaves_out() && !suspicion.is_raised());
        suspicion.unanswered();
        assert!(suspicion.leaves_out() && suspicion.is_raised());
        suspicion.0.lock().until = Moment::ZERO;
        assert!(!suspicion.leaves_out(), "the first after the pause");
        assert!(suspicion.leaves_out(), "the second");
        suspicion.answered(Duration::ZERO);
        assert!(!suspicion.leaves_out() && !suspicion.is_raised());
    }

    #[test]
    fn one_that_is_always_slow_is_given_its_time() {
        let (suspicion, unknown) = (Suspicion::default(), Duration::from_millis(250));
        let (slow, quick) = (Duration::from_millis(30), Duration::from_millis(1));
        assert_eq!(suspicion.grace(unknown), unknown);
        suspicion.answered(slow);
        assert_eq!(suspicion.grace(unknown), slow * 2);
        (0..50).for_each(|_| suspicion.answered(quick));
        assert_eq!(suspicion.grace(unknown), SHORTEST_GRACE);
        (0..8).for_each(|_| suspicion.unanswered());
        assert!(
            suspicion.grace(unknown) > slow * 2,
            "it may have become slow"
        );
    }

    #[test]
    fn pauses_grow() {
        let suspicion = Suspicion::default();
        let pauses: Vec<Duration> = (0..8)
            .map(|_| {
                suspicion.unanswered();
                suspicion.0.lock().pause
            })
            .collect();
        assert_eq!(pauses[0], FIRST_PAUSE);
        assert!(pauses.is_sorted() && pauses[7] == LONGEST_PAUSE);
    }
}
