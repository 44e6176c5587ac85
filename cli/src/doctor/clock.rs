//! Compares the speed of the server's clock with that of this machine. Leases do not depend on the
//! time that a clock shows.

use std::time::Duration;

use super::finding::Finding;
use super::finding::Verdict::{Failure, Ok as Good, Unknown};
use crate::kinds::decoded;
use crate::probe::ask;
use leasehold::__Moment as Moment;
use leasehold::admin::{Connection, ServerError};

/// By how many percent the server's clock may be faster: the library counts leases as shorter by
/// this.
const FASTER: f64 = 1.0;

/// How often the clock is read for one reading. The quickest one counts.
const READINGS: usize = 5;

/// After how many seconds the clocks are compared, until the result is clear.
const PERIODS: [u64; 4] = [1, 2, 4, 5];

/// The time of the server at a moment between two moments here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    sent: Moment,
    received: Moment,
    /// The server's time since 1970.
    theirs: Duration,
}

impl Reading {
    /// The one of several readings with the shortest round trip; `None` if the server refuses TIME.
    pub(super) fn quickest(connection: &mut Connection) -> Result<Option<Self>, ServerError> {
        let mut readings = Vec::new();
        for _ in 0..READINGS {
            let sent = Moment::now();
            let reply = ask(connection, &redis::cmd("TIME"))?;
            let received = Moment::now();
            let Some((seconds, micros)) = reply.ok().and_then(decoded) else {
                return Ok(None);
            };
            readings.push(Self {
                sent,
                received,
                theirs: Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)),
            });
        }
        Ok(readings.into_iter().min_by_key(Self::trip))
    }

    /// The time of the round trip.
    pub(super) fn trip(&self) -> Duration {
        self.received.since(self.sent)
    }
}

/// Compares the speed since the first reading.
pub(super) fn compare(connection: &mut Connection, first: &Reading) -> Finding {
    for period in PERIODS {
        let end = first.received.after(Duration::from_secs(period));
        while !end.is_past() {
            std::thread::sleep(end.left());
        }
        let Ok(Some(second)) = Reading::quickest(connection) else {
            return Unknown.of("it did not reply any more");
        };
        if let Some(finding) = rate(first, &second) {
            return finding;
        }
    }
    Unknown.of("its replies take too long, and their times vary too much")
}

/// Compares the speed; `None` if the readings do not tell yet. The more time between them, the
/// clearer.
fn rate(first: &Reading, second: &Reading) -> Option<Finding> {
    let shortest = second.sent.since(first.received).as_secs_f64();
    let longest = second.received.since(first.sent).as_secs_f64();
    if shortest <= 0.0 {
        return None;
    }
    let theirs = second.theirs.as_secs_f64() - first.theirs.as_secs_f64();
    let hundredths = |ours: f64| (theirs / ours - 1.0) * 100.0;
    let (least, most) = (hundredths(longest), hundredths(shortest));
    if most <= FASTER {
        return Some(Good.of("no faster than the clock here"));
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
        }
    }

    #[test]
    fn a_clock_is_fast_only_if_no_delay_explains_the_difference() {
        let verdict = |first, second| rate(&first, &second).map(|finding| finding.verdict);
        let first = reading(0, 2, 1);
        assert_eq!(verdict(first, reading(1_000, 1_002, 1_001)), Some(Good));
        assert_eq!(
            verdict(first, reading(1_000, 1_002, 900)),
            Some(Good),
            "slower"
        );
        assert_eq!(verdict(first, reading(1_000, 1_002, 1_051)), Some(Failure));
        // Between 970 and 1,030 milliseconds of ours passed.
        let (slow, late) = (reading(0, 30, 15), reading(1_000, 1_030, 1_035));
        assert_eq!(verdict(slow, late), None);
        assert_eq!(verdict(slow, reading(5_000, 5_030, 5_015)), Some(Good));
        assert_eq!(verdict(first, first), None);
    }
}
