//! Acquires all of several names.
//!
//! First all names are requested together, all or none. If one of them is not free, the call waits
//! for that name alone, as a call for a single lock does, and then requests the rest together. It
//! holds names only while it waits for a later one in their order. So calls for several names do
//! not wait for each other in a circle.
//!
//! A thread that holds one of the names may wait for another one. So the call gives way: after
//! [`PATIENCE`] it returns what it holds, and only waits for the name that is missing. Each time,
//! its patience is doubled, so that it gets its names where each wait is long.
//!
//! A client of Redisson acquires its names in another order, and holds them while it waits. While
//! it has the name that is awaited, the call holds its names in any order, for [`BESIDE_REDISSON`]
//! at first.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::held::extend;
use super::together::{HeldName, Owner, Refused, Together, ask};
use super::{CompositeCall, Held, Missing, Needed};
use crate::base::{CallBudget, Moment, jitter};
use crate::engine::HeldLock;
use crate::error::{Error, Result};
use crate::lease::Renewals;
use crate::local::Claim;

/// For how long names are held at first while another one is awaited.
const PATIENCE: Duration = Duration::from_millis(1400);

/// For how long they are held at most.
const LONGEST_PATIENCE: Duration = Duration::from_secs(64);

/// For how long, about, names are held at first while a client of Redisson has the one that is
/// awaited. It may wait for one of these, and then neither goes on before this call gives way.
const BESIDE_REDISSON: Duration = Duration::from_millis(4);

/// One call that acquires several names.
struct Several<'a> {
    call: CompositeCall<'a>,
    missing: &'a [Missing<'a>],
    /// The action that gives way takes them out.
    held: Rc<RefCell<Vec<HeldName>>>,
    patience: Duration,
    beside_redisson: Duration,
}

/// Acquires these names, which the thread does not hold; `None` if the budget ends first.
pub(super) fn acquire(
    call: CompositeCall<'_>,
    missing: &[Missing<'_>],
) -> Result<Option<Vec<HeldLock>>> {
    let mut several = Several {
        call,
        missing,
        held: Rc::default(),
        patience: PATIENCE,
        beside_redisson: BESIDE_REDISSON,
    };
    let is_acquired = several.run();
    let mut held = several.held.take();
    held.sort_unstable_by_key(|(at, _)| *at);
    let levels = held.into_iter().map(|(_, level)| level).collect();
    if let Ok(true) = is_acquired {
        return Ok(Some(levels));
    }
    call.release(levels);
    is_acquired.map(|_| None)
}

impl Several<'_> {
    /// Acquires the names. False if the wait ends first.
    fn run(&mut self) -> Result<bool> {
        let (composite, budget) = (self.call.composite, self.call.budget);
        loop {
            budget.check_interrupt(composite.name())?;
            let rest = self.rest();
            if !rest.is_empty() {
                match ask(self.call, self.missing, &rest)? {
                    Together::Held(names) if rest.len() == self.missing.len() => {
                        self.held.replace(names);
                        return Ok(true);
                    }
                    Together::Held(names) => self.held.borrow_mut().extend(names),
                    Together::Refused(Refused { owner, .. }, _)
                        if owner != Owner::Unknown && budget.is_wait_over() =>
                    {
                        return Ok(false);
                    }
                    Together::Refused(Refused { at, owner }, claim) => {
                        if budget.is_wait_over() && budget.call_deadline().is_past() {
                            return Ok(false);
                        }
                        if !self.wait_for(at, owner, claim)? {
                            return Ok(false);
                        }
                        self.confirm()?;
                        continue;
                    }
                }
            }
            if self.confirm()? {
                return Ok(true);
            }
        }
    }

    /// The names that are not held.
    fn rest(&self) -> Vec<usize> {
        let mut is_held = vec![false; self.missing.len()];
        for (at, _) in &*self.held.borrow() {
            is_held[*at] = true;
        }
        (0..is_held.len()).filter(|&at| !is_held[at]).collect()
    }

    /// Waits for one name, whose ticket the thread may have. False if the wait ends first.
    fn wait_for(&mut self, at: usize, owner: Owner, claim: Option<Claim>) -> Result<bool> {
        // Redisson acquires its names in any order, so the order prevents nothing beside it. It
        // releases them one by one: this name follows soon if a later one was just acquired.
        if owner != Owner::Redisson {
            self.give_back(|(other, _)| *other > at);
        }
        let CompositeCall { budget, .. } = self.call;
        let holds_some = !self.held.borrow().is_empty();
        if holds_some {
            let held = Rc::clone(&self.held);
            let (timeout, end) = (self.call.core.command_timeout, budget.call_deadline());
            let patience = match owner {
                Owner::Redisson => jitter(self.beside_redisson),
                Owner::Client | Owner::Unknown => self.patience,
            };
            let due = Moment::now().after(patience.min(self.longest_patience()));
            budget.give_way_at(due, move || {
                let levels = held.take().into_iter().map(|(_, level)| level);
                let held = Held::all(levels.collect());
                // What is lost, or without a reply, needs nothing more of this thread.
                let _ = held.release(|| CallBudget::for_reply(timeout.min(end.left())));
            });
        }
        let part = self.call.part(self.missing, at);
        let acquired = part.acquire_first_level(claim, None);
        budget.give_no_way();
        let has_given_way = holds_some && self.held.borrow().is_empty();
        if has_given_way {
            match owner {
                Owner::Redisson => self.beside_redisson = PATIENCE.min(self.beside_redisson * 2),
                Owner::Client | Owner::Unknown => {
                    self.patience = LONGEST_PATIENCE.min(self.patience * 2);
                }
            }
        }
        let level = acquired?;
        budget.set_unanswered_since(None);
        let is_acquired = level.is_some();
        let name = level.map(|level| (at, level));
        self.held.borrow_mut().extend(name);
        Ok(is_acquired)
    }

    /// For how long names can be held while another one is awaited: their leases are not renewed
    /// meanwhile, unless there is no limit to that.
    fn longest_patience(&self) -> Duration {
        let held = self.held.borrow();
        let limited = held.iter().filter(|(at, _)| self.is_limited(*at));
        let halves =
            limited.map(|(at, _)| Duration::from_millis(self.missing[*at].terms.millis / 2));
        halves.min().unwrap_or(LONGEST_PATIENCE)
    }

    fn is_limited(&self, at: usize) -> bool {
        self.missing[at].terms.renewals != Renewals::Unlimited
    }

    /// Returns those of the names that are held.
    fn give_back(&self, is_returned: impl Fn(&HeldName) -> bool) {
        let held = self.held.take();
        let (returned, kept): (Vec<_>, Vec<_>) = held.into_iter().partition(is_returned);
        self.held.replace(kept);
        let levels = returned.into_iter().map(|(_, level)| level);
        self.call.release(levels.collect());
    }

    /// After a wait: gives the names whose leases are not renewed without a limit their whole lease
    /// again, in one step. False if a name was lost meanwhile; it is not held then.
    fn confirm(&self) -> Result<bool> {
        let held = self.held.borrow();
        let limited = held.iter().filter(|(at, _)| self.is_limited(*at));
        let limited: Vec<_> = limited
            .map(|(at, level)| (level, self.missing[*at].terms.millis))
            .collect();
        match extend(&limited, Needed::All, self.call.budget) {
            Ok(()) | Err(Error::Lost { .. }) => {}
            Err(error) => return Err(error),
        }
        let names = held.len();
        drop(held);
        self.give_back(|(_, level)| level.check().is_err());
        Ok(self.held.borrow().len() == names)
    }
}
