//! The calls that acquire a composite.

use std::time::Duration;

use super::levels::{self, Own};
use super::{Composite, CompositeCall, Held, Missing, Needed, distinct, majority, several};
use crate::base::Interrupt;
use crate::engine::{HeldLock, end_wait};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::observe::{WaitSpan, long_wait};

impl Composite {
    /// Acquires the lock, or a further level of it; `None` if `wait` ends first. Without one, the
    /// wait has no limit. Fails if the interrupt is raised.
    pub(crate) fn lock_within(
        &self,
        wait: Option<Duration>,
        lease: Lease,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<Held>> {
        let core = self.check_process()?;
        let mut budget = core
            .budget_to_wait(wait, interrupt)
            .counted(&self.locks[0].core.observer.counters)
            .reporting(self.name(), long_wait);
        distinct(self.cores()).for_each(|core| budget.end_at_shutdown(&core.shutdown));
        budget.share_grace();
        let call = CompositeCall {
            composite: self,
            core,
            budget: &budget,
        };
        let type_name = self.type_name();
        let span = WaitSpan::enter(self.name(), type_name);
        let result = call.acquire(lease).map_err(|error| self.of_call(error));
        let levels = end_wait(span, core, type_name, result, |levels| {
            levels.as_deref().unwrap_or_default()
        })?;
        Ok(levels.map(|levels| Held::Several {
            levels,
            needed: self.needed,
        }))
    }

    /// An error that ends the whole call names all locks.
    fn of_call(&self, mut error: Error) -> Error {
        if let Error::Interrupted { lock } | Error::ShutDown { lock } = &mut error {
            *lock = self.name().into();
        }
        error
    }
}

impl CompositeCall<'_> {
    /// Acquires the locks that this thread does not hold, and a further level of the others; `None`
    /// if the budget ends first.
    fn acquire(self, lease: Lease) -> Result<Option<Vec<HeldLock>>> {
        let (composite, budget) = (self.composite, self.budget);
        budget.check_interrupt(composite.name())?;
        let (mut own, mut missing) = (Vec::new(), Vec::new());
        for lock in &*composite.locks {
            let terms = lease.terms(composite.name(), lock.core.watchdog_lease)?;
            match lock.hold() {
                Some(hold) => own.push(Own { lock, hold, terms }),
                None => missing.push(Missing { lock, terms }),
            }
        }
        let needed = composite.needed.of(own.len());
        if !own.is_empty() {
            levels::check(composite, &mut own, needed)?;
        }
        // A hold on a majority does not acquire further servers.
        let new = match composite.needed {
            Needed::All if missing.is_empty() => Some(Vec::new()),
            Needed::All => several::acquire(self, &missing)?,
            Needed::Majority(_) if own.is_empty() => majority::acquire(self, &missing)?,
            Needed::Majority(_) => Some(Vec::new()),
        };
        let Some(mut held) = new else {
            return Ok(None);
        };
        if own.is_empty() {
            return Ok(Some(held));
        }
        if let Err(error) = levels::add(self, own, needed, &mut held) {
            self.release(held);
            return Err(error);
        }
        // In the order of the locks.
        held.sort_by(|one, other| one.hold.lock.cmp(&other.hold.lock));
        Ok(Some(held))
    }
}
