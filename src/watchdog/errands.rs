//! What the renewal thread does beside renewing: it writes counts that are in doubt, and releases what
//! nobody holds. Both are tried again until they are answered, and neither holds up a renewal.

use std::sync::Arc;
use std::time::Duration;

use super::thread::{Worker, guarded};
use super::{Id, Renew, Withdrawal};
use crate::clock::Moment;
use crate::conn::{Advice, Wire};
use crate::script::{self, Count, Verdict};

const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Worker {
    /// Writes the counts of which nobody knows whether Redis has them. A failure is of no account: it is
    /// tried again.
    pub(super) fn settle(&mut self, due: &[(Id, Arc<dyn Renew>)], until: Moment) {
        let now = Moment::now();
        let counts: Vec<(&Arc<dyn Renew>, Count)> = due
            .iter()
            .filter_map(|(_, target)| Some((target, guarded(|| target.settle(now))??)))
            .collect();
        if counts.is_empty() {
            return;
        }
        let requests: Vec<u8> = counts
            .iter()
            .flat_map(|(_, count)| count.call().by_source())
            .collect();
        let Ok((mut wire, _)) = self.send(&requests, until) else {
            self.cut_off = true;
            return;
        };
        for (target, count) in counts {
            match wire.receive() {
                Ok(reply) => {
                    if matches!(script::verdict(&reply), Ok(Verdict::Done)) {
                        guarded(|| target.settled(&count.owner));
                    }
                }
                Err(error) if Advice::on(&error).keeps_connection() => {}
                Err(_) => {
                    self.cut_off = true;
                    return;
                }
            }
        }
        self.keep(wire);
    }

    /// Withdraws what is due, all sent together and a few at a time: renewals come first, and a
    /// server that hangs must not cost them their time.
    pub(super) fn withdraw(&mut self, withdrawals: Vec<Withdrawal>, until: Moment) {
        if withdrawals.is_empty() {
            return;
        }
        let requests: Vec<u8> = withdrawals
            .iter()
            .flat_map(|w| script::release(&w.key, &w.owner).by_source())
            .collect();
        let mut wire = self.send(&requests, until).ok().map(|(wire, _)| wire);
        for withdrawal in withdrawals {
            match wire.as_mut().map(Wire::receive) {
                Some(Ok(_)) => {}
                Some(Err(error)) if Advice::on(&error) == Advice::WrongType => {}
                Some(Err(error)) if Advice::on(&error).keeps_connection() => {
                    self.put_off(withdrawal);
                }
                Some(Err(_)) | None => {
                    wire = None;
                    self.put_off(withdrawal);
                }
            }
        }
        match wire {
            Some(wire) => self.keep(wire),
            None => self.cut_off = true,
        }
    }

    pub(super) fn put_off(&self, mut withdrawal: Withdrawal) {
        if withdrawal.until.is_past() {
            return;
        }
        withdrawal.due = Moment::now().after(withdrawal.pause);
        withdrawal.pause = (withdrawal.pause * 2).min(LONGEST_PAUSE);
        self.shared.state.lock().withdrawals.push(withdrawal);
    }
}
