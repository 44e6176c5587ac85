//! The server's clock against ours: where it stands, and how fast it runs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;

use super::finding::Finding;
use crate::clock::Moment;

/// Clocks of machines that are kept by somebody agree better.
const FAR_OFF: Duration = Duration::from_secs(1);

/// How much faster than ours a server's clock may run, in hundredths: by so much a lease counts as
/// shorter here.
const FASTER: f64 = 1.0;

/// What the server's clock said at some moment between two of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) sent: Moment,
    pub(super) received: Moment,
    /// Since 1970, by the server.
    pub(super) theirs: Duration,
    /// The same by us, when the reply had arrived.
    pub(super) ours: Duration,
}

impl Reading {
    /// Of the reply to TIME: seconds and microseconds.
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

/// Where it stands.
pub(super) fn offset(reading: &Reading) -> Finding {
    const CHECK: &str = "clock";
    let (theirs, ours) = (reading.theirs, reading.ours);
    let (off, direction) = if theirs > ours {
        (theirs - ours, "ahead of")
    } else {
        // The reply took its time.
        let off = (ours - theirs).saturating_sub(reading.trip());
        (off, "behind")
    };
    if off <= FAR_OFF {
        return Finding::ok(CHECK, "agrees with ours");
    }
    Finding::note(
        CHECK,
        format!(
            "{off:.1?} {direction} ours: no matter for leases, which nobody compares; but set \
             forward while locks are held it ends them early"
        ),
    )
}

/// How fast it runs, or that this cannot be told yet: the longer between the readings, the clearer.
pub(super) fn rate(first: &Reading, second: &Reading) -> Option<Finding> {
    const CHECK: &str = "clock-rate";
    let shortest = second.sent.since(first.received).as_secs_f64();
    let longest = second.received.since(first.sent).as_secs_f64();
    if shortest <= 0.0 {
        return None;
    }
    let theirs = second.theirs.as_secs_f64() - first.theirs.as_secs_f64();
    let hundredths = |ours: f64| (theirs / ours - 1.0) * 100.0;
    let (least, most) = (hundredths(longest), hundredths(shortest));
    if most <= FASTER {
        return Some(Finding::ok(CHECK, "no faster than ours"));
    }
    (least > FASTER).then(|| {
        Finding::failure(
            CHECK,
            format!("it runs {least:.1} % faster than ours, or was set meanwhile: leases end early there, while their holders believe in them"),
            "look at the time service of that machine; if nobody sets its clock, its hardware or \
             its hypervisor is at fault",
        )
    })
}

/// What to say where it never became clear.
pub(super) fn rate_unknown(why: &str) -> Finding {
    Finding::unknown("clock-rate", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict::{Failure, Note, Ok};

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
    fn a_clock_is_fast_only_if_no_delay_explains_it() {
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
