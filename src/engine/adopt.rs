//! Gives a hold away for a token, and takes it over by the token.
//!
//! Both replace the owner id in Redis: the first by one that only the token has, the second by one
//! of the client that adopts. So nothing that is late finds the hold under its old owner id, and a
//! token works once.

use super::{Ask, HeldLock, LockCall, NotGranted, SingleLock, keep};
use crate::base::Moment;
use crate::error::{Cause, Error, LostReason, Result};
use crate::local::{Turns, Unlocks};
use crate::protocol::{AcquireOptions, Token};

impl HeldLock {
    /// Ends this hold here, and leaves it in Redis with its whole lease. If that fails, it is
    /// released.
    pub(crate) fn give_away(&self) -> Result<Token> {
        let unlocks = Unlocks::GivesAway(self.level);
        self.unlock(unlocks, || self.core.budget_to_unlock())?;
        let grant = self.hold.grant();
        let given = grant.given_away();
        let (owner, terms) = given.ok_or_else(|| self.hold.not_held())?;
        Ok(Token {
            kind: grant.kind,
            name: self.hold.key().name().into(),
            owner,
            fencing: self.hold.token(),
            // After the reply, because Redis counts the lease from the request.
            terms: terms.adopted_after(Moment::now()),
            // Redis may have executed the request at any time before the reply.
            kept: grant.lease_ends().left().max(terms.length()),
        })
    }
}

impl SingleLock {
    /// Takes over the hold of this token, with its whole lease.
    pub(crate) fn adopt(&self, token: &Token) -> Result<HeldLock> {
        self.check_process()?;
        let budget = &self.until_shutdown(self.core.budget_to_unlock());
        let _call = self.core.watchdog.delay_shutdown();
        budget.check_interrupt(self.name())?;
        let call = LockCall::of_one(self, token.terms, budget);
        let owner = match self.kind.has_ticket {
            true => self.new_owner().before(&token.owner),
            false => token.owner.with_fresh_name(),
        };
        let options = AcquireOptions {
            adopts: true,
            ..AcquireOptions::default()
        };
        let mut ask = Ask::of_owner(owner, self, token.terms);
        ask.kept = ask.kept.max(token.kept);
        let mut granted = match ask.send(&options, None, None, budget) {
            Ok(granted) => granted,
            Err(not_granted) => {
                if matches!(not_granted, NotGranted::Refused(_)) && token.owner.permits() > 1 {
                    // One permit is lost, and the script has given none of them.
                    ask.release_later(&token.owner);
                }
                return Err(call.not_adopted(not_granted));
            }
        };
        let fencing = token.fencing;
        granted.tokens = fencing.map_or(0..0, |number| number..number.saturating_add(1));
        granted.turns = Turns::Adopted;
        let claim = self.core.queue.claim_without_ticket(&self.id);
        let held = keep(call, claim, granted);
        held.hold.begin_span(self.kind.name, &self.node());
        Ok(held)
    }
}

impl LockCall<'_> {
    fn not_adopted(self, not_granted: NotGranted) -> Error {
        match not_granted {
            NotGranted::Failed(_, mut error) => {
                if let Error::Unavailable { cause, .. } = &mut error {
                    *cause = Cause::from(format!("{cause}; its token may be spent")).into();
                }
                error
            }
            NotGranted::TooLate(_) => self.too_late_error(),
            NotGranted::Refused(_) => Error::Lost {
                lock: self.lock.name().into(),
                reason: LostReason::TokenSpent,
            },
        }
    }
}
