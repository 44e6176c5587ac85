//! The waits of a call that requests a lock: pauses in which it leaves the lock to others, and the
//! wait for a release.

use std::sync::Arc;
use std::time::Duration;

use super::acquisition::Acquisition;
use super::line::{RARELY, deaf_sleep, longest_sleep};
use super::round::HeldByOther;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::OwnerId;
use crate::engine::ask::Ask;
use crate::engine::single_lock::SingleLock;
use crate::engine::wait::Channel;
use crate::local::Pause;
use crate::protocol::message::is_deaf;
use crate::request::Prepared;
use crate::watchdog::LineWaiter;

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
    pub(super) fn await_release(&mut self, held: &HeldByOther) {
        if held.rank.is_none() {
            // Without a line, the thread listens to releases, and a look finds nothing.
            self.line_wait = None;
        }
        let longest = self.longest_sleep(held);
        let lock = self.call.lock;
        let mut channels: List<Channel<'a>> = List::new();
        if held.rank.is_some() {
            channels.push(lock.channel().called(held.asked));
        }
        if held.rank.is_none() {
            channels.push(lock.channel());
        } else if held.listens {
            channels.push(lock.channel().except_calls());
        }
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
    fn longest_sleep(&mut self, held: &HeldByOther) -> Duration {
        let SingleLock {
            core, key, kind, ..
        } = self.call.lock;
        match (held.rank, self.place_in_line()) {
            (Some(rank), Some(place)) => {
                let waiter = LineWaiter {
                    place: Arc::clone(&place),
                    listens: held.listens,
                    has_lease: true,
                    unparker: self.call.budget.unparker().clone(),
                };
                let (asked, pending) = (held.asked, held.pending);
                let wait = core
                    .watchdog
                    .wait_in_line(key, waiter, rank, asked, pending);
                self.line_wait = Some(wait);
                match is_deaf(&place) {
                    true => deaf_sleep(rank),
                    false => longest_sleep(rank, held.left) + core.wait_jitter(),
                }
            }
            // Its turn in a queue without ranks, that of a fair lock, comes without a message. The
            // longer the client waits, the more clients may be before it.
            _ if core.subscriber.is_deaf(key, key.channel()) => {
                self.deaf_sleeps += 1;
                held.left.min(deaf_sleep(self.deaf_sleeps))
            }
            // A permit may come free before the first lease ends.
            _ if !kind.has_ticket => held.left.min(RARELY) + core.wait_jitter(),
            _ => held.left + core.wait_jitter(),
        }
    }

    /// Prepares the next request, which the subscriber thread sends when a message arrives.
    fn prepare(&mut self) -> Option<(OwnerId, Arc<Prepared>)> {
        // While it lets others pass, or without a subscription, this thread sends the request
        // itself.
        let SingleLock { core, key, .. } = self.call.lock;
        let pauses = self.pause.is_some_and(|pause| pause.holds > 0);
        let is_deaf = self.place_in_line().is_some_and(|place| is_deaf(&place));
        if pauses || is_deaf {
            return None;
        }
        // Other threads may begin to wait behind this one.
        self.expected_holds = self.expected_holds.max(2);
        let ask = Ask::new(self.call.lock, self.call.terms);
        let call = ask.call(&self.options(true));
        self.is_known_to_wait = true;
        let request = Prepared::new(&core.redis, key, call);
        Some((ask.owner().clone(), request))
    }
}
