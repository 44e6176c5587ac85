//! The steps that every round of requests shares.

use super::request::{Replies, Request};
use crate::core::Core;
use crate::engine::local_wait::check_reply_deadline;
use crate::error::Result;

impl Request<'_> {
    /// Begins a round of requests. Fails if there was no reply for too long.
    pub(super) fn begin_round(&mut self) -> Result<()> {
        let (since, wanted_holds) = self.claim.begin_request();
        self.wanted_holds = wanted_holds;
        let unanswered = Some(since);
        self.budget.set_unanswered_since(unanswered);
        let core: &Core = &self.units[0].parts[0].core;
        let locks = self.claim.locks();
        check_reply_deadline(core, self.parts, locks, unanswered, self.budget)
    }

    /// If this client has released the lock while other clients listened: waits until one of them
    /// releases it, or could have acquired it. Returns whether a release was heard; `None` without
    /// a wait.
    pub(super) fn leave_to_others(&mut self) -> Option<bool> {
        let pause = self.claim.take_pause()?;
        if self.budget.is_wait_over() || pause.until.is_past() {
            return None;
        }
        self.after_release = pause.extra;
        while !pause.deaf_until.is_past() && !self.budget.is_interrupted() {
            self.budget.wait(pause.deaf_until.left());
            if self.budget.is_wait_over() {
                return None;
            }
        }
        self.budget.take_wake_up();
        let is_heard = self.budget.wait(pause.until.left());
        if is_heard {
            self.let_others_go_first();
        }
        Some(is_heard)
    }

    /// After the first round: records whether another client used the pause, if there was one, in
    /// which a release was heard or not.
    pub(super) fn end_pause(&self, is_heard: Option<bool>, replies: &Replies<'_>) {
        if let Some(is_heard) = is_heard {
            self.claim.end_pause(is_heard || !replies.held.is_empty());
        }
    }

    /// After the first release since this client's own: waits a little, if several clients compete.
    pub(super) fn let_others_go_first(&mut self) {
        if let Some(extra) = self.after_release.take() {
            self.budget.wait(extra);
        }
    }
}

pub(super) fn count_wake_up(core: &Core, by_message: bool) {
    let counters = &core.observer.counters;
    if by_message {
        counters.wakeups_by_message.add(1);
    } else {
        counters.wakeups_by_timeout.add(1);
    }
}
