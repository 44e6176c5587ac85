//! The first steps of an acquisition and of each of its rounds: leaves the lock to other clients
//! after a release, and counts the time without a reply.

use super::acquisition::{Acquisition, Replies};
use crate::base::clock::Moment;
use crate::engine::local_wait::no_reply;
use crate::error::Result;

impl Acquisition<'_> {
    /// Begins a round of requests. Returns when the replies must have arrived. Fails if there was
    /// no reply for too long.
    pub(super) fn begin_round(&mut self) -> Result<Moment> {
        let (since, expected_holds) = self.claim.begin_request();
        self.expected_holds = expected_holds;
        self.call.budget.set_unanswered_since(Some(since));
        let deadline = self.call.budget.reply_deadline();
        match deadline.is_past() {
            true => Err(no_reply(self.call, self.claim.locks())),
            false => Ok(deadline),
        }
    }

    /// If this client has released the lock while other clients listened: waits until they have had
    /// it, or could have acquired it.
    pub(super) fn leave_to_others(&mut self) {
        let budget = self.call.budget;
        if budget.is_wait_over() {
            return;
        }
        let pause = self.claim.take_pause();
        self.pause = pause.filter(|pause| pause.is_in_line || !pause.until.is_past());
        if let Some(pause) = &mut self.pause {
            // The rest of a limited wait is for requests.
            let most = (budget.wait_left() / 2).div_duration_f32(pause.length);
            pause.holds = pause.holds.min(most as u32).max(1);
        }
        let Some(pause) = self.pause.filter(|pause| !pause.is_in_line) else {
            return;
        };
        let wait_until = Moment::now().after(budget.wait_left());
        self.wait.sleep_deaf(pause.deaf_until.min(wait_until));
        budget.take_wake_up();
        self.let_others_pass(pause.until);
    }

    /// Waits until the other clients have had the lock as often as the pause says. The next of them
    /// has until `until` to acquire and release it.
    pub(super) fn let_others_pass(&mut self, mut until: Moment) {
        let Some(pause) = &mut self.pause else { return };
        while pause.holds > 0 && self.call.budget.wait(until.left()) {
            pause.pass();
            until = Moment::now().after(pause.length);
        }
    }

    /// After a round: counts a hold of another client for the pause.
    pub(super) fn count_hold(&mut self, replies: &Replies<'_>) {
        let (Some(mut pause), Some(held)) = (self.pause, replies.held.last()) else {
            return;
        };
        if held.is_foreign || !pause.is_in_line {
            pause.pass();
        }
        let rank = held.rank.unwrap_or_default();
        self.pause = pause.enter_line(rank, fastrand::f32());
    }
}
