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
        let mut queries = Vec::with_capacity(grants.len());
        for (level, grant) in levels.iter().zip(&grants) {
            let time = budget.reply_deadline().left();
            let query = level.hold.begin_query(grant, time)?;
            let busy = "another query under this lock got no reply in this time";
            queries
                .push(query.ok_or_else(|| core.redis.unavailable(key, budget, Cause::from(busy)))?);
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
        let end = |queries: Vec<Query<'_>>| queries.into_iter().for_each(Query::end);
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
