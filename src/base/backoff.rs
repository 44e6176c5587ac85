//! Pauses between attempts.

use std::time::Duration;

/// Pauses that double, from a first one up to a longest one.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    start: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            start: first,
            next: first,
        }
    }

    /// Makes the very first pause zero, so that the first retry is immediate.
    pub(crate) const fn with_immediate_retry(self) -> Self {
        Self {
            start: Duration::ZERO,
            next: Duration::ZERO,
            ..self
        }
    }

    /// The pause before the next attempt. Each call returns twice the pause of the previous call.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.after(pause);
        pause
    }

    /// The pause that follows this one; after none, the first.
    pub(crate) fn after(&self, pause: Duration) -> Duration {
        (pause * 2).clamp(self.first, self.longest)
    }

    /// Starts from the first pause again, after an attempt that succeeded.
    pub(crate) fn reset(&mut self) {
        self.next = self.start;
    }
}

/// A random duration between half of `time` and one and a half times `time`, so that clients that
/// collided do not collide at every retry.
pub(crate) fn jitter(time: Duration) -> Duration {
    time / 2 + time * fastrand::u32(0..1000) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn four(backoff: &mut Backoff) -> [Duration; 4] {
        [(); 4].map(|()| backoff.next())
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(MS(20), MS(100));
        assert_eq!(four(&mut backoff), [MS(20), MS(40), MS(80), MS(100)]);
        backoff.reset();
        assert_eq!(backoff.next(), MS(20));
    }

    #[test]
    fn the_first_retry_can_be_immediate() {
        let mut backoff = Backoff::new(MS(20), MS(40)).with_immediate_retry();
        assert_eq!(four(&mut backoff), [MS(0), MS(20), MS(40), MS(40)]);
        backoff.reset();
        assert_eq!(backoff.next(), MS(0));
    }

    #[test]
    fn jitter_stays_within_half_of_the_time() {
        for _ in 0..1000 {
            let pause = jitter(MS(100));
            assert!((MS(50)..MS(150)).contains(&pause), "{pause:?}");
        }
    }
}
