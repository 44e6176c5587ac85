//! Gives a hold away for a token, and takes it over by the token.
//!
//! Both replace the owner id in Redis: the first by one that only the token has, the second by one
//! of the client that adopts. So nothing that is late finds the hold under its old owner id, and a
//! token works once.

use super::acquire::keep_adopted;
use super::ask::{Answer, Ask};
use super::held_lock::HeldLock;
use super::lock_call::LockCall;
use super::single_lock::SingleLock;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::error::{Error, LostReason, Result};
use crate::protocol::{AcquireOptions, Token, Verdict, verdict};
use crate::request::{confirmed, request_one};

/// The number of turns of a grant that is not handed over.
const ONE_TURN: usize = 1;

impl HeldLock {
    /// Ends this hold here, and leaves it in Redis with its whole lease. If that fails, it is
    /// released.
    pub(crate) fn give_away(&self, budget: impl FnOnce() -> CallBudget<'static>) -> Result<Token> {
        self.check_process()?;
        // A shutdown that ends a hold which is marked would leave it in Redis.
        let _call = self.core.watchdog.delay_shutdown();
        let (kind, fencing) = (self.hold.grant().kind, self.hold.token());
        let given = self.hold.give_away();
        self.release(budget)?;
        let (owner, terms) = given.ok_or_else(|| self.hold.not_held())?;
        Ok(Token {
            kind,
            name: self.hold.key().name().into(),
            owner,
            fencing,
            terms,
        })
    }
}

impl SingleLock {
    /// Takes over the hold of this token, with its whole lease.
    pub(crate) fn adopt(&self, token: &Token) -> Result<HeldLock> {
        self.check_process()?;
        let Self { core, key, .. } = self;
        let budget = &self.until_shutdown(core.budget_to_unlock());
        let _call = core.watchdog.delay_shutdown();
        budget.check_interrupt(self.name())?;
        let call = LockCall {
            lock: self,
            terms: token.terms,
            budget,
            begun: Moment::now(),
            also: &[],
        };
        let mut ask = Ask::to_adopt(&token.owner, self, token.terms);
        let options = AcquireOptions::default();
        let request = ask.request(ask.call(&options));
        let mut next_call = |_| Some(ask.next_copy(&options));
        let result = request_one(&request, &mut next_call, budget);
        let result = confirmed(result, &request, next_call, budget);
        let result = match result {
            Ok(reply) if matches!(verdict(&reply.reply), Ok(Verdict::Lost(_))) => {
                ask.undo_lost_copies(reply.lost_copies);
                return Err(Error::Lost {
                    lock: self.name().into(),
                    reason: LostReason::TokenSpent,
                });
            }
            result => result,
        };
        let is_undone = matches!(&result, Err(none) if none.lost_copies.is_ambiguous());
        match ask.end(result, None) {
            Answer::Granted(mut granted) => {
                granted.tokens = token.fencing.map_or(0..0, |fencing| fencing..fencing + 1);
                granted.turns = Some(ONE_TURN);
                let held = keep_adopted(call, granted);
                held.hold.begin_span(self.kind.name, &core.node(key));
                Ok(held)
            }
            Answer::TooLate(_) => Err(call.too_late_error()),
            Answer::Failed(
                _,
                Error::Unavailable {
                    cause,
                    node,
                    lock,
                    waited,
                },
            ) if is_undone => {
                let cause = format!("{cause}; it is being released, so its token is spent");
                Err(Error::Unavailable {
                    lock,
                    node,
                    waited,
                    cause: cause.into(),
                })
            }
            Answer::Failed(_, error) => Err(error),
            Answer::Refused(_) => Err(self.not_held()),
        }
    }
}
