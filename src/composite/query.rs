//! Commands that Redis executes if, and only if, the lock is still held.

use std::sync::Arc;

use redis::Value;

use super::grouped::group;
use super::{Held, Needed};
use crate::base::CallBudget;
use crate::engine::{HeldLock, end_as_lost, keys_of};
use crate::error::{Cause, Error, Result, SharedCause};
use crate::local::{Grant, Query};
use crate::protocol::{Command, Queried, QueryReply, query};
use crate::request::{Request, request_one};

impl Held {
    /// Executes these commands if all locks are held, and returns their replies, which may be
    /// errors. Never sends them twice. After any error but [`Error::Query`], none was or will be
    /// executed.
    pub(crate) fn query(
        &self,
        commands: &[Command<'_>],
        budget: &CallBudget,
    ) -> Result<Vec<Value>> {
        let levels = self.levels();
        let first = self.first_of_one_slot()?;
        levels.iter().try_for_each(HeldLock::check)?;
        let (core, key) = (&first.core, first.hold.key());
        let keys = keys_of(core, key, commands, budget)?;
        let grants: Vec<Arc<Grant>> = levels.iter().map(|level| level.hold.grant()).collect();
        let end = |queries: Vec<Query<'_>>| queries.into_iter().for_each(Query::end);
        let mut queries = Vec::with_capacity(grants.len());
        for (level, grant) in levels.iter().zip(&grants) {
            let time = budget.reply_deadline().left();
            let busy = "another query under this lock got no reply in this time";
            let busy = || core.redis.unavailable(key, budget, Cause::from(busy));
            let query = level.hold.begin_query(grant, time);
            match query.and_then(|query| query.ok_or_else(busy)) {
                Ok(query) => queries.push(query),
                Err(not_sent) => {
                    end(queries);
                    return Err(not_sent);
                }
            }
        }
        let follows_unclear = queries.iter().any(|query| query.follows_unclear);
        let locks = queries.iter().map(|query| Queried {
            key: query.grant.key(),
            kind: query.grant.kind,
            owner: query.grant.owner(),
            number: query.number,
        });
        let locks: Vec<Queried<'_>> = locks.collect();
        let call = query(&locks, &keys, commands, follows_unclear);
        let request = Request {
            others: locks.iter().skip(1).map(|lock| lock.key).collect(),
            ..Request::new(&core.redis, key, call)
        };
        let reply = match request_one(&request, |_| None, budget) {
            Ok(reply) => QueryReply::of(reply.reply).map_err(|error| request.refusal(error)),
            Err(no_reply) if no_reply.lost_copies.is_ambiguous() => Err(*no_reply.error),
            Err(not_executed) => {
                end(queries);
                return Err(*not_executed.error);
            }
        };
        let cause: SharedCause = match reply {
            Ok(QueryReply::Executed(replies)) => {
                end(queries);
                return Ok(replies);
            }
            Ok(QueryReply::Lost(at, reason)) if at < levels.len() => {
                end(queries);
                end_as_lost(core, &grants[at], reason);
                return Err(levels[at].hold.loss_error(reason));
            }
            Ok(_) => Cause::from("a second copy of the query arrived").into(),
            Err(Error::Unavailable { cause, .. }) => cause,
            Err(error) => Cause::from(error.to_string()).into(),
        };
        Err(self.query_error(cause, false))
    }

    /// The error of a query that was executed, or may be.
    pub(crate) fn query_error(&self, cause: SharedCause, executed: bool) -> Error {
        let first = &self.levels()[0];
        let key = first.hold.key();
        Error::Query {
            lock: key.name().into(),
            node: first.core.node(key).as_ref().into(),
            cause,
            executed,
        }
    }

    /// The first lock, if all are of one client, and in a cluster in one slot.
    fn first_of_one_slot(&self) -> Result<&HeldLock> {
        let rule = match self {
            Self::One(level) => return Ok(level),
            Self::Several {
                needed: Needed::Majority(_),
                ..
            } => "a query needs a lock at one server, not at a majority of several",
            Self::Several { levels, .. } => {
                let places = levels.iter().map(|level| (&level.core, level.hold.key()));
                if let [_] = &group(places, |_, _| true)[..] {
                    return Ok(&levels[0]);
                }
                "a query needs names of one client, and in a cluster of one slot"
            }
        };
        let names = self.levels().iter().map(|level| level.hold.key().name());
        Err(Error::unsuited(&names.collect::<Vec<_>>().join(", "), rule))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::{HolderId, Moment};
    use crate::config::LockClientBuilder;
    use crate::core::Core;
    use crate::engine::SingleLock;
    use crate::lease::Lease;
    use crate::local::{Granted, Turns, Unlocked, Unlocks};
    use crate::protocol::{PLAIN, commands};

    /// A hold of this thread on a lock of a client whose server does not exist.
    fn held(core: &Arc<Core>, name: &str) -> HeldLock {
        let lock = SingleLock::new(Arc::clone(core), name, &PLAIN);
        let (queue, holder) = (&core.queue, HolderId::current_thread());
        let now = Moment::now();
        let entered = queue.enter(&lock.id, holder, false, now);
        let terms = Lease::RENEWED.terms(name, core.watchdog_lease).unwrap();
        let granted = Granted {
            owner: lock.new_owner(),
            asked: now,
            replied: now,
            terms,
            lease_ends: now.after(terms.length()),
            tokens: 0..0,
            turns: Turns::InSlice,
        };
        let (id, key) = (lock.id.clone(), lock.key.clone());
        let hold = queue.begin_hold(id, key, lock.kind, granted, &core.observer, holder);
        entered.claim.unwrap().keep(&hold);
        HeldLock::first(core, hold)
    }

    /// Its grant could not be handed over any more.
    #[test]
    fn a_query_that_was_not_sent_is_no_unclear_one() {
        let config = LockClientBuilder::from("redis://127.0.0.1:1");
        let core = Arc::new(Core::open(config.validate().unwrap()).unwrap());
        let (first, second) = (held(&core, "first"), held(&core, "second"));
        let grant = second.hold.grant();
        let busy = second.hold.begin_query(&grant, Duration::ZERO).unwrap();
        let both = Held::all(vec![first.clone(), second.clone()]);
        let pipeline = redis::pipe().incr("number", 1).clone();
        let budget = CallBudget::for_reply(Duration::ZERO);
        let result = both.query(&commands(&pipeline).unwrap(), &budget);
        assert!(matches!(result, Err(Error::Unavailable { .. })));
        drop(busy);
        let linger = Duration::from_secs(60);
        let unlock = |held: &HeldLock| core.queue.unlock(&held.hold, Unlocks::Newest, linger);
        assert_eq!(unlock(&first), Unlocked::Idle);
        // The other one may be executed.
        assert_eq!(unlock(&second), Unlocked::Last);
    }
}
