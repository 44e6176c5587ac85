//! The waits of a call that requests a lock: pauses in which it leaves the lock to others, and the
//! wait for a release.

use std::sync::Arc;
use std::time::Duration;

use super::acquisition::Acquisition;
use crate::base::Moment;
use crate::engine::ask::Ask;
use crate::engine::line::{LONGEST, RARELY, deaf_sleep, longest_sleep};
use crate::engine::single_lock::SingleLock;
use crate::local::Pause;
use crate::protocol::Refusal;
use crate::request::Prepared;

impl<'a> Acquisition<'a> {
    /// If this client has released the lock while other clients listened: waits until they have had
    /// it, or could have acquired it.
    pub(super) fn pause_for_others(&mut self) {
        if self.call.budget.is_wait_over() {
            return;
        }
        self.pause = self.claim.take_pause();
        if self.pause.is_some_and(|pause| !pause.is_in_line) {
            // The message of this client's own release may still arrive.
            let deaf = (Pause::EACH / 4).min(self.call.budget.wait_left());
            self.wait.sleep_deaf(Moment::now().after(deaf));
            self.call.budget.take_wake_up();
            self.let_others_pass();
        }
    }

    /// Waits until the other clients have had the lock as often as the pause says. Each of these
    /// waits takes at most half of what is left of a limited one.
    fn let_others_pass(&mut self) {
        let Some(pause) = &mut self.pause else { return };
        let budget = self.call.budget;
        while pause.holds > 0 && budget.wait(Pause::EACH.min(budget.wait_left() / 2)) {
            pause.holds -= 1;
            self.claim.note_passed(None);
        }
    }

    /// Waits until the lock that another owner holds may be free.
    pub(super) fn await_release(&mut self, refusal: &Refusal) {
        let (lock, unparker) = (self.call.lock, self.call.budget.unparker());
        // The client that was called may not answer.
        let reserved_for = refusal.millis.filter(|_| refusal.is_reserved(lock));
        let pending = reserved_for.map(Duration::from_millis);
        self.line.watch(refusal.standing, true, pending, unparker);
        let longest = self.longest_sleep(refusal);
        let channels = self.line.channels(refusal.standing);
        self.prepared = self.prepare();
        let request = self.prepared.as_ref().map(|(_, request)| request);
        let is_woken = self
            .wait
            .sleep_listening(&lock.core, &channels, request, longest);
        if is_woken {
            self.let_others_pass();
        }
    }

    /// How long the thread sleeps if no message comes. In a line, the watchdog looks meanwhile.
    fn longest_sleep(&mut self, refusal: &Refusal) -> Duration {
        let lock = self.call.lock;
        let SingleLock {
            core, key, kind, ..
        } = lock;
        let is_endless = refusal.is_reserved(lock) || refusal.has_no_permits(lock);
        let left = if is_endless { LONGEST } else { refusal.left() };
        match refusal.standing.rank {
            Some(rank) if self.line.is_deaf() => deaf_sleep(rank),
            Some(rank) if self.line.has_place() => longest_sleep(rank, left) + core.wait_jitter(),
            // Its turn in a queue without ranks, that of a fair lock, comes without a message.
            _ if core.subscriber.is_deaf(key, key.channel()) => {
                left.min(self.line.next_deaf_sleep())
            }
            // A permit may come free before the first lease ends.
            _ if !kind.has_ticket => left.min(RARELY) + core.wait_jitter(),
            _ => left + core.wait_jitter(),
        }
    }

    /// Prepares the next request, which the subscriber thread sends when a message arrives.
    fn prepare(&mut self) -> Option<(Ask<'a>, Arc<Prepared>)> {
        // While it lets others pass, or without a subscription, this thread sends the request
        // itself.
        let SingleLock { core, key, .. } = self.call.lock;
        let pauses = self.pause.is_some_and(|pause| pause.holds > 0);
        if pauses || self.line.is_deaf() {
            return None;
        }
        // Other threads may begin to wait behind this one.
        self.expected_holds = self.expected_holds.max(2);
        let ask = Ask::new(self.call.lock, self.call.terms);
        let call = ask.call(&self.options(true));
        self.line.is_known = true;
        let request = Prepared::new(&core.redis, key, call);
        Some((ask, request))
    }
}
