//! When this client leaves a lock that it has released to other clients. No I/O and no clock.
//!
//! A client that releases a lock and requests it again at once nearly always gets it before a
//! client that has to hear of the release first. Clients of this library stand in a line, and the
//! lock is reserved for the one that is called. Clients of Redisson only listen. So if others
//! listen, this client waits a little before its next request: for as long as they were seen to
//! need. A listener need not want the lock, and its process may be stopped. So yields that no other
//! client uses become longer, and then rarer.

use std::time::Duration;

use crate::base::clock::Moment;

/// The slice while no other client waits: a grant may be handed over for this long.
const SLICE: Duration = Duration::from_millis(10);

/// The slice while other clients wait. It is about as long as one short hold, so that clients with
/// few threads get as many holds as clients with many.
const SHORT_SLICE: Duration = Duration::from_millis(2);

/// Bounds of the pause before the next request, and the length of the first one. A thread of
/// Redisson requests the lock 1.6 ms after a release (median, on two cores).
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
const FIRST_PAUSE: Duration = Duration::from_micros(2500);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// A request of another client takes at least as long as this many round trips: the message, the
/// wake-up of its thread, the request.
const ROUND_TRIPS: u32 = 3;

/// After a pause that another client used, the next one is this part of it shorter.
const SHORTENED: u32 = 16;

/// If two or more other clients listen, the client that has released the lock also waits after the
/// next release, for this many round trips, within these bounds. Otherwise the client to which the
/// server sends each message last might never get the lock.
const MORE_ROUND_TRIPS: u32 = 2;
const SHORTEST_EXTRA: Duration = Duration::from_micros(300);
const LONGEST_EXTRA: Duration = Duration::from_millis(2);

/// After `n` yields in a row that no client used, this client does not yield for `1 << n` pauses,
/// at most `1 << RAREST`. So yields to a client that only listens take 3 % of the time, and a
/// client that wants the lock is not kept from it for long.
const RAREST: u32 = 5;

/// The yields of this client for one lock. Most locks have none.
#[derive(Debug, Default)]
pub(super) struct Yields(Option<Box<History>>);

#[derive(Debug, Default)]
struct History {
    /// The yields in a row that no other client used.
    unused: u32,
    /// The length of the next pause; zero before the first one.
    length: Duration,
    /// There is no yield before this moment.
    next: Option<Moment>,
    /// Other clients listened at the last release.
    is_contended: bool,
    /// How the next request waits.
    pause: Option<Pause>,
}

/// How a thread leaves the lock to other clients before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// Until this moment it hears nothing: the message may be that of this client's own release.
    pub(crate) deaf_until: Moment,
    /// Then it waits for the next release until this moment.
    pub(crate) until: Moment,
    /// After the next release it waits for this long, if several clients compete.
    pub(crate) extra: Option<Duration>,
}

impl Yields {
    /// For how long a grant may be handed over.
    pub(super) fn slice(&self) -> Duration {
        match &self.0 {
            Some(history) if history.is_contended && history.unused == 0 => SHORT_SLICE,
            _ => SLICE,
        }
    }

    /// Records a release at `now`, which took `took`, how many other clients listened, and whether
    /// one in the line was called. The lock is reserved for that one, so the next request enters
    /// the line behind it, without a pause.
    pub(super) fn released(
        &mut self,
        now: Moment,
        took: Duration,
        listeners: u32,
        is_called: bool,
    ) {
        let is_contended = listeners > 0 || is_called;
        if !is_contended && self.0.is_none() {
            return;
        }
        let history = self.0.get_or_insert_default();
        history.is_contended = is_contended;
        history.pause = None;
        if is_called {
            history.unused = 0;
            history.next = None;
        }
        if listeners == 0 || is_called || history.next.is_some_and(|next| now < next) {
            return;
        }
        if history.length.is_zero() {
            history.length = FIRST_PAUSE;
        }
        let pause = history.length.max(took * ROUND_TRIPS);
        let pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let extra = (took * MORE_ROUND_TRIPS).clamp(SHORTEST_EXTRA, LONGEST_EXTRA);
        history.length = pause;
        history.pause = Some(Pause {
            deaf_until: now.after(took.min(pause / ROUND_TRIPS)),
            until: now.after(pause),
            extra: (listeners > 1).then_some(extra),
        });
    }

    /// How the next request waits; `None` if it is made at once.
    pub(super) fn take_pause(&mut self) -> Option<Pause> {
        self.0.as_mut()?.pause.take()
    }

    /// True if other clients waited at the last release.
    pub(super) fn is_contended(&self) -> bool {
        let history = self.0.as_ref();
        history.is_some_and(|history| history.is_contended)
    }

    /// Records at `now` whether another client acquired the lock during the pause.
    pub(super) fn ended(&mut self, now: Moment, was_used: bool) {
        let Some(history) = &mut self.0 else {
            return;
        };
        if was_used {
            history.unused = 0;
            history.next = None;
            history.length -= history.length / SHORTENED;
        } else if history.length < LONGEST_PAUSE {
            history.length *= 2;
        } else {
            history.unused = (history.unused + 1).min(RAREST);
            history.next = Some(now.after(history.length * (1 << history.unused)));
        }
    }

    /// True if it knows nothing that a new one would not know.
    pub(super) fn is_fresh(&self) -> bool {
        let history = self.0.as_ref();
        history.is_none_or(|history| !history.is_contended && history.unused == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ZERO.after(Duration::from_millis(millis))
    }

    #[test]
    fn without_listeners_the_next_request_is_made_at_once() {
        let mut yields = Yields::default();
        yields.released(at(1), Duration::from_millis(1), 0, false);
        assert_eq!(yields.take_pause(), None);
        assert!(yields.is_fresh());
    }

    #[test]
    fn the_first_pause_is_as_long_as_others_need_and_at_least_some_round_trips() {
        for (took, micros) in [(0, 2500), (400, 2500), (1000, 3000), (100_000, 10_000)] {
            let mut yields = Yields::default();
            yields.released(at(1), Duration::from_micros(took), 1, false);
            let end = at(1).after(Duration::from_micros(micros));
            let pause = yields.take_pause().unwrap();
            assert_eq!((pause.until, pause.extra), (end, None));
            assert_eq!(yields.take_pause(), None, "once");
        }
    }

    #[test]
    fn with_several_other_clients_the_turn_after_the_next_is_the_earliest() {
        let mut yields = Yields::default();
        yields.released(at(1), Duration::from_micros(400), 2, false);
        let extra = Duration::from_micros(800);
        assert_eq!(yields.take_pause().unwrap().extra, Some(extra));
    }

    #[test]
    fn unused_yields_become_rare_and_a_used_one_ends_that() {
        let mut yields = Yields::default();
        let mut pauses = 0;
        for millis in 0..10_000 {
            yields.released(at(millis), Duration::ZERO, 1, false);
            if yields.take_pause().is_some() {
                pauses += 1;
                yields.ended(at(millis), false);
            }
        }
        // Of 10 ms each.
        assert!(pauses < 10_000 / 10 / 32 + 10, "{pauses}");
        assert_eq!(yields.slice(), SLICE);
        yields.released(at(10_000 + 320), Duration::ZERO, 1, false);
        assert!(
            yields.take_pause().is_some(),
            "also for a lock that is seldom released"
        );
        yields.ended(at(10_000 + 320), true);
        yields.released(at(10_000 + 320), Duration::ZERO, 1, false);
        assert!(yields.take_pause().is_some());
        assert_eq!(yields.slice(), SHORT_SLICE);
    }

    #[test]
    fn an_unused_pause_makes_the_next_one_longer_and_a_used_one_shorter() {
        let mut yields = Yields::default();
        let mut pause = |was_used| {
            yields.released(at(1), Duration::ZERO, 1, false);
            let pause = yields.take_pause().unwrap();
            yields.ended(at(1), was_used);
            pause.until.since(at(1))
        };
        let first = pause(false);
        assert_eq!(pause(true), first * 2);
        assert_eq!(pause(true), first * 2 - first * 2 / SHORTENED);
    }

    #[test]
    fn there_is_no_pause_for_a_client_that_was_called() {
        let mut yields = Yields::default();
        yields.released(at(1), Duration::ZERO, 3, true);
        assert_eq!(yields.take_pause(), None);
        assert_eq!(yields.slice(), SHORT_SLICE);
    }
}
