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

    /// If this client has released the lock while other clients listened: waits until one of them
    /// releases it, or could have acquired it.
    pub(super) fn leave_to_others(&mut self) {
        let Some(pause) = self.claim.take_pause() else {
            return;
        };
        if self.call.budget.is_wait_over() || pause.until.is_past() {
            return;
        }
        self.after_release = pause.extra;
        let wait_until = Moment::now().after(self.call.budget.wait_left());
        self.wait.sleep_deaf(pause.deaf_until.min(wait_until));
        if self.call.budget.is_wait_over() {
            return;
        }
        self.call.budget.take_wake_up();
        let is_heard = self.call.budget.wait(pause.until.left());
        if is_heard {
            self.let_others_go_first();
        }
        self.pause = Some(is_heard);
    }

    /// After the first round: records whether another client used the pause, if there was one.
    pub(super) fn end_pause(&mut self, replies: &Replies<'_>) {
        if let Some(is_heard) = self.pause.take() {
            self.claim.end_pause(is_heard || !replies.held.is_empty());
        }
    }

    /// After the first release since this client's own: waits a little, if several clients compete.
    pub(super) fn let_others_go_first(&mut self) {
        if let Some(extra) = self.after_release.take() {
            self.call.budget.wait(extra);
        }
    }
}
