//! Decides when a job must end, and why. It is pure: the time is an argument.

use std::fmt;
use std::time::Duration;

use leasehold::__Moment as Moment;
use leasehold::LostReason;

/// When the steps to end a job are due, so that it is dead before its lease can end.
#[derive(Debug)]
pub(super) struct Schedule {
    lease: Duration,
    kill_after: Duration,
    /// Until when no other client can have the lock, as far as is known. This can become earlier: a
    /// majority has the time of the last server that it needs.
    pub(super) stands_until: Moment,
    /// The end of `--max-hold`.
    time_is_up: Moment,
    /// Until when processes that got a signal from outside have time to end.
    end_until: Moment,
    /// Why the job is being ended, if it is.
    pub(super) why: Option<Why>,
    /// When KILL is due, unless the lease ends sooner.
    kill_by: Moment,
    killed: bool,
}

/// Why the job is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Redis did not reply for most of the lease.
    Unconfirmed,
    Lost(LostReason),
    /// `--max-hold` is over.
    TimeIsUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Term(Why),
    Kill,
}

impl Schedule {
    pub(super) fn new(lease: Duration, kill_after: Duration, time_is_up: Moment) -> Self {
        Self {
            lease,
            kill_after,
            stands_until: Moment::ZERO,
            time_is_up,
            end_until: Moment::ZERO,
            why: None,
            kill_by: Moment::NEVER,
            killed: false,
        }
    }

    /// The lock was lost before the end of its lease, so another client may have it: KILL is due
    /// after a sixth of the lease at the latest. A job that is ended for another reason has less
    /// time from now on.
    pub(super) fn lost(&mut self, reason: LostReason, now: Moment) -> Option<Step> {
        let kill_by = now.after(self.kill_after.min(self.lease / 6));
        self.end(Why::Lost(reason), kill_by)
    }

    /// The step that is due now. Each step is returned once.
    pub(super) fn due(&mut self, now: Moment) -> Option<Step> {
        if self.next() > now {
            return None;
        }
        if self.why.is_some() {
            self.killed = true;
            return Some(Step::Kill);
        }
        let why = match self.term_at() <= now {
            true => Why::Unconfirmed,
            false => Why::TimeIsUp,
        };
        self.end(why, now.after(self.kill_after))
    }

    /// When the next step is due. KILL comes a sixtieth of the lease before its end at the latest.
    pub(super) fn next(&self) -> Moment {
        match self.why {
            None => self.term_at().min(self.time_is_up),
            Some(_) if self.killed => Moment::NEVER,
            Some(_) => self.kill_by.min(self.stands_until.before(self.lease / 60)),
        }
    }

    /// A signal from outside asked the job to end. The lock is still held, so no step follows from
    /// that.
    pub(super) fn asked_to_end(&mut self, now: Moment) {
        self.end_until = now.after(self.kill_after);
    }

    /// True while processes that were asked to end have time for that.
    pub(super) fn leaves_time(&self, now: Moment) -> bool {
        match self.why {
            None => now < self.end_until,
            Some(_) => !self.killed,
        }
    }

    /// TERM, unless the job is already being ended.
    fn end(&mut self, why: Why, kill_by: Moment) -> Option<Step> {
        self.kill_by = self.kill_by.min(kill_by);
        let is_new = self.why.is_none();
        self.why.get_or_insert(why);
        is_new.then_some(Step::Term(why))
    }

    /// When TERM is due if no renewal is confirmed: `kill_after` before KILL, but only in the last
    /// sixth of the lease.
    fn term_at(&self) -> Moment {
        let grace = (self.lease / 60).saturating_add(self.kill_after);
        self.stands_until.before(grace.min(self.lease / 6))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconfirmed => {
                f.write_str("Redis confirmed no renewal in time, and the lease is nearly over")
            }
            Self::Lost(reason) => write!(f, "it was lost ({reason})"),
            Self::TimeIsUp => f.write_str("--max-hold is over"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEASE: u64 = 60_000;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(time: u64) -> Moment {
        Moment::ZERO.after(millis(1_000_000 + time))
    }

    /// The schedule of a lock that stands until the end of its first lease.
    fn schedule(kill_after: u64, time_is_up: Moment) -> Schedule {
        let mut schedule = Schedule::new(millis(LEASE), millis(kill_after), time_is_up);
        schedule.stands_until = at(LEASE);
        schedule
    }

    #[test]
    fn without_a_renewal_both_steps_come_before_the_end_of_the_lease() {
        let mut schedule = schedule(30_000, Moment::NEVER);
        assert_eq!(schedule.next(), at(50_000));
        assert_eq!(schedule.due(at(49_999)), None);
        let term = Step::Term(Why::Unconfirmed);
        assert_eq!(schedule.due(at(50_000)), Some(term));
        assert_eq!(schedule.due(at(50_000)), None);
        assert_eq!(schedule.next(), at(59_000));
        assert_eq!(schedule.due(at(58_999)), None);
        assert_eq!(schedule.due(at(59_000)), Some(Step::Kill));
        assert_eq!(
            (schedule.due(at(90_000)), schedule.next()),
            (None, Moment::NEVER)
        );
    }

    #[test]
    fn a_renewal_postpones_the_end() {
        let mut schedule = schedule(5_000, Moment::NEVER);
        assert_eq!(schedule.next(), at(54_000));
        schedule.stands_until = at(2 * LEASE);
        assert_eq!(schedule.due(at(54_000)), None);
        assert_eq!(schedule.next(), at(114_000));
    }

    #[test]
    fn a_majority_with_less_time_left_than_before_counts() {
        let mut schedule = schedule(5_000, Moment::NEVER);
        schedule.stands_until = at(40_000);
        assert_eq!(schedule.next(), at(34_000));
    }

    #[test]
    fn a_loss_ends_the_job_within_a_sixth_of_the_lease_and_what_was_left() {
        for (kill_after, lost_at, kill_at) in [
            (5_000, 10_000, 15_000),
            (30_000, 10_000, 20_000),
            (5_000, 56_000, 59_000),
            (5_000, 59_500, 59_000),
        ] {
            let mut schedule = schedule(kill_after, Moment::NEVER);
            let step = schedule.lost(LostReason::Deleted, at(lost_at));
            assert_eq!(step, Some(Step::Term(Why::Lost(LostReason::Deleted))));
            assert_eq!(schedule.next(), at(kill_at));
            assert_eq!(schedule.lost(LostReason::Taken, at(lost_at)), None);
            assert_eq!(schedule.due(at(kill_at.max(lost_at))), Some(Step::Kill));
        }
    }

    #[test]
    fn a_job_has_time_to_end_after_max_hold() {
        let mut schedule = schedule(5_000, at(20_000));
        assert_eq!(schedule.next(), at(20_000));
        assert_eq!(schedule.due(at(20_000)), Some(Step::Term(Why::TimeIsUp)));
        assert_eq!(schedule.why, Some(Why::TimeIsUp));
        assert_eq!(schedule.next(), at(25_000));
        assert_eq!(schedule.due(at(25_000)), Some(Step::Kill));
    }

    #[test]
    fn after_max_hold_kill_waits_for_kill_after_unless_the_lock_is_lost() {
        let mut schedule = schedule(30_000, at(10_000));
        assert_eq!(schedule.due(at(10_000)), Some(Step::Term(Why::TimeIsUp)));
        assert_eq!(schedule.next(), at(40_000));
        assert_eq!(schedule.lost(LostReason::Taken, at(15_000)), None);
        assert_eq!(schedule.next(), at(25_000));
        // A second loss gives no more time.
        assert_eq!(schedule.lost(LostReason::Taken, at(20_000)), None);
        assert_eq!(schedule.next(), at(25_000));
        assert_eq!(schedule.why, Some(Why::TimeIsUp));
    }

    #[test]
    fn processes_that_were_asked_to_end_have_time_until_kill_or_kill_after() {
        let mut schedule = schedule(5_000, at(20_000));
        assert!(!schedule.leaves_time(at(0)));
        schedule.asked_to_end(at(1_000));
        assert!(schedule.leaves_time(at(5_999)));
        assert!(!schedule.leaves_time(at(6_000)));
        // No step follows from it.
        assert_eq!((schedule.why, schedule.next()), (None, at(20_000)));
        schedule.asked_to_end(at(7_000));
        assert!(schedule.leaves_time(at(11_999)));
        assert_eq!(schedule.due(at(20_000)), Some(Step::Term(Why::TimeIsUp)));
        assert!(schedule.leaves_time(at(24_999)));
        assert_eq!(schedule.due(at(25_000)), Some(Step::Kill));
        schedule.asked_to_end(at(25_000));
        assert!(!schedule.leaves_time(at(25_000)));
    }

    proptest! {
        /// Whenever renewals and losses happen, KILL comes before the end of the last lease.
        #[test]
        fn kill_is_in_time(
            kill_after in 0..100_000u64,
            is_up in 0..500_000u64,
            lost in 0..500_000u64,
            renewals in prop::collection::vec(1..40_000u64, 0..10),
        ) {
            let mut schedule = schedule(kill_after, at(is_up));
            let (mut now, mut end) = (0, LEASE);
            for step in renewals {
                now += step;
                if now >= lost || schedule.why.is_some() {
                    break;
                }
                end = now + LEASE;
                schedule.stands_until = at(end);
            }
            let mut killed = None;
            while killed.is_none() {
                if now >= lost {
                    schedule.lost(LostReason::Taken, at(now));
                }
                if schedule.due(at(now)) == Some(Step::Kill) {
                    killed = Some(now);
                }
                now += 100;
            }
            prop_assert!(killed < Some(end));
            prop_assert!(schedule.why.is_some());
        }
    }
}
