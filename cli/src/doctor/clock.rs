//! Compares the clock of the server with that of this machine: its time and its speed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;

use super::finding::Finding;
use super::finding::Verdict::{Failure, Note, Ok};
use leasehold::__Moment as Moment;

/// Clocks that are synchronized differ less.
const FAR_OFF: Duration = Duration::from_secs(1);

/// By how many percent the server's clock may be faster: the library counts leases as shorter by
/// this.
const FASTER: f64 = 1.0;

/// The time of the server at a moment between two moments here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) sent: Moment,
    pub(super) received: Moment,
    /// The server's time since 1970.
    pub(super) theirs: Duration,
    /// The time here since 1970, when the reply had arrived.
    pub(super) ours: Duration,
}

impl Reading {
    /// From the reply to TIME: seconds and microseconds.
    pub(super) fn of(sent: Moment, reply: Value) -> Option<Self> {
        let received = Moment::now();
        let ours = SystemTime::now().duration_since(UNIX_EPOCH);
        let (seconds, micros): (u64, u64) = redis::from_redis_value(reply).ok()?;
        Some(Self {
            sent,
            received,
            theirs: Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)),
            ours: ours.unwrap_or_default(),
        })
    }

    pub(super) fn trip(&self) -> Duration {
        self.received.since(self.sent)
    }
}

/// Compares the time.
pub(super) fn offset(reading: &Reading) -> Finding {
    let (theirs, ours) = (reading.theirs, reading.ours);
    let (off, direction) = if theirs > ours {
        (theirs - ours, "ahead of")
    } else {
        // The time of the round trip is not the clock's.
        let off = (ours - theirs).saturating_sub(reading.trip());
        (off, "behind")
    };
    if off <= FAR_OFF {
        return Ok.of("agrees with the clock here");
    }
    Note.of(format!(
        "{off:.1?} {direction} the clock here. Leases do not depend on that. But if the server's \
         clock is set forward while locks are held, their leases end early"
    ))
}

/// Compares the speed; `None` if the readings do not tell yet. The more time between them, the
/// clearer.
pub(super) fn rate(first: &Reading, second: &Reading) -> Option<Finding> {
    let shortest = second.sent.since(first.received).as_secs_f64();
    let longest = second.received.since(first.sent).as_secs_f64();
    if shortest <= 0.0 {
        return None;
    }
    let theirs = second.theirs.as_secs_f64() - first.theirs.as_secs_f64();
    let hundredths = |ours: f64| (theirs / ours - 1.0) * 100.0;
    let (least, most) = (hundredths(longest), hundredths(shortest));
    if most <= FASTER {
        return Some(Ok.of("no faster than the clock here"));
    }
    let found = format!(
        "it runs {least:.1} % faster than the clock here, or was set meanwhile: leases end early \
         there, while their holders rely on them"
    );
    let advice = "check the time service of that machine; if no service sets its clock, its \
                  hardware or hypervisor is faulty";
    (least > FASTER).then(|| Failure.advise(found, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(sent: u64, received: u64, theirs: u64) -> Reading {
        let start = Moment::ZERO.after(Duration::from_secs(100));
        Reading {
            sent: start.after(Duration::from_millis(sent)),
            received: start.after(Duration::from_millis(received)),
            theirs: Duration::from_millis(1_000_000 + theirs),
            ours: Duration::from_millis(1_000_000 + received),
        }
    }

    #[test]
    fn a_clock_that_is_far_off_is_only_noted() {
        assert_eq!(offset(&reading(0, 2, 1)).verdict, Ok);
        assert_eq!(offset(&reading(0, 2, 1_500)).verdict, Note);
        assert_eq!(
            offset(&reading(0, 2_500, 1)).verdict,
            Ok,
            "the reply took so long"
        );
        let behind = Reading {
            theirs: Duration::from_secs(990),
            ..reading(0, 2, 0)
        };
        assert_eq!(offset(&behind).verdict, Note);
    }

    #[test]
    fn a_clock_is_fast_only_if_no_delay_explains_the_difference() {
        let verdict = |first, second| rate(&first, &second).map(|finding| finding.verdict);
        let first = reading(0, 2, 1);
        assert_eq!(verdict(first, reading(1_000, 1_002, 1_001)), Some(Ok));
        assert_eq!(
            verdict(first, reading(1_000, 1_002, 900)),
            Some(Ok),
            "slower"
        );
        assert_eq!(verdict(first, reading(1_000, 1_002, 1_051)), Some(Failure));
        // Between 970 and 1,030 milliseconds of ours passed.
        let (slow, late) = (reading(0, 30, 15), reading(1_000, 1_030, 1_035));
        assert_eq!(verdict(slow, late), None);
        assert_eq!(verdict(slow, reading(5_000, 5_030, 5_015)), Some(Ok));
        assert_eq!(verdict(first, first), None);
    }
}
