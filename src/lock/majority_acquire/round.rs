//! One attempt at all servers at once.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::{Found, MajorityAcquire, POLL};
use crate::base::clock::Moment;
use crate::base::owner::{self, OwnerId, ThreadId};
use crate::error::{Error, Result};
use crate::lease::drift;
use crate::local::{Grant, Hold, QueueEntry, Quorum};
use crate::lock::acquire::{release_orphan, start_hold, undo_lost_copies};
use crate::lock::handle::Handle;
use crate::lock::majority::joined;
use crate::lock::ticket::confirm_soon;
use crate::request::{Enough, NoReply, Request, broadcast};
use crate::script::{self, Attempt};

/// What all servers said.
#[derive(Default)]
struct Said {
    granted: Vec<(usize, Grant)>,
    /// For how long others hold it, and where.
    held: Vec<(Duration, usize)>,
    /// The first server whose part another thread of this process has.
    behind: Option<usize>,
    failures: Vec<Error>,
}

impl MajorityAcquire<'_> {
    /// Asks, and keeps or gives back what is granted.
    pub(super) fn attempt(&mut self) -> Result<Found> {
        let said = self.ask();
        let (needed, servers) = (self.lock.needed(), self.lock.locks.len());
        let refusals = |error: &&Error| !matches!(error, Error::Unavailable { .. });
        if said.failures.iter().filter(refusals).count() + needed > servers {
            self.undo(said.granted);
            return Err(joined(self.lock.name(), said.failures, self.budget));
        }
        let answered = said.granted.len() + said.held.len();
        if said.granted.len() >= needed {
            return Ok(self.keep(said.granted));
        }
        let had: Vec<usize> = said.granted.iter().map(|&(at, _)| at).collect();
        self.undo(said.granted);
        if answered < needed {
            return Ok(Found::Silence(joined(
                self.lock.name(),
                said.failures,
                self.budget,
            )));
        }
        if let Some(at) = said.behind {
            return Ok(Found::Behind(at));
        }
        if !had.is_empty() && said.held.len() < needed {
            return Ok(Found::Shared);
        }
        let (mut held, passing): (Vec<_>, Vec<_>) = said
            .held
            .into_iter()
            .partition(|(_, at)| !self.spare.contains(at));
        if held.len() < needed {
            // A majority that was made up since.
            held.extend(passing);
            self.spare.clear();
        }
        self.spare.extend(had);
        held.sort_unstable();
        let missing = needed - self.spare.len();
        self.elsewhere = held.iter().map(|&(_, at)| at).collect();
        Ok(Found::Held {
            left: held.get(missing - 1).map_or(POLL, |&(left, _)| left),
            shared: !self.spare.is_empty(),
        })
    }

    fn ask(&mut self) -> Said {
        let thread = ThreadId::current();
        let mut said = Said::default();
        let mut asked = Vec::with_capacity(self.turns.len());
        for (at, lock) in self.lock.locks.iter().enumerate() {
            if self.turns[at].is_none() {
                match lock.core.queue.enter(lock.key.key(), thread) {
                    QueueEntry::Front(ticket) => self.turns[at] = Some(ticket),
                    // Another thread of this process has the server by a lock over other servers.
                    _ => {
                        said.held.push((POLL, at));
                        said.behind.get_or_insert(at);
                        continue;
                    }
                }
            }
            asked.push((at, OwnerId::current(&lock.core.id)));
        }
        let question = |(at, owner): &(usize, OwnerId)| {
            let lock = &self.lock.locks[*at];
            Request {
                client: &lock.core.redis,
                lock: &lock.key,
                call: script::acquire(&lock.key, owner, self.terms[*at].millis),
            }
        };
        if asked.len() < self.lock.needed() {
            return said;
        }
        let requests: Vec<Request<'_>> = asked.iter().map(question).collect();
        let enough = Enough {
            needed: self.lock.needed(),
            is_good: |reply| matches!(reply, Value::Nil),
        };
        let answers = broadcast(&requests, enough, self.budget);
        for ((at, owner), answer) in asked.into_iter().zip(answers) {
            let lock = &self.lock.locks[at];
            let terms = self.terms[at];
            let answer = match answer {
                Ok(answer) => answer,
                Err(NoReply { error, lost_copies }) => {
                    undo_lost_copies(&lock.core, &lock.key, owner, terms, lost_copies);
                    said.failures.push(error);
                    continue;
                }
            };
            match script::attempt(&answer.reply) {
                Ok(Attempt::Taken(token)) => said.granted.push((
                    at,
                    Grant {
                        owner,
                        asked: answer.asked,
                        terms,
                        token,
                    },
                )),
                Ok(Attempt::Held(millis)) => {
                    let left = millis.map_or(POLL, Duration::from_millis);
                    said.held.push((left, at));
                }
                // This server may have granted the lock, but the reply does not say so.
                Err(error) => {
                    owner::retire();
                    release_orphan(&lock.core, &lock.key, owner, terms);
                    let refusal = lock.core.redis.refusal(&lock.key, error);
                    said.failures.push(refusal);
                }
            }
        }
        said
    }

    /// Holds what was granted, if that is a majority still.
    fn keep(&mut self, granted: Vec<(usize, Grant)>) -> Found {
        let now = Moment::now();
        let lives = |(_, grant): &&(usize, Grant)| {
            let lease = Duration::from_millis(grant.terms.millis);
            now < grant.asked.after(lease - drift(lease))
        };
        if granted.iter().filter(lives).count() < self.lock.needed() {
            let cause = "the answers came after the end of the leases that they granted";
            let first = &self.lock.locks[0];
            let redis = &first.core.redis;
            let error = redis.unavailable(&first.key, self.budget, cause.into());
            self.undo(granted);
            return Found::Silence(error);
        }
        let mut held = Vec::with_capacity(granted.len());
        for (at, grant) in granted {
            let Handle { core, key, .. } = &self.lock.locks[at];
            let observer = Arc::clone(&core.observer);
            let hold = Arc::new(Hold::new(key.clone(), grant, &core.queue, observer));
            // It has the ticket, or would not have asked.
            if let Some(ticket) = self.turns[at].take() {
                held.push(start_hold(core, ticket, hold, self.budget));
            }
        }
        let holds: Vec<Arc<Hold>> = held.iter().map(|held| Arc::clone(&held.hold)).collect();
        Quorum::join(&holds, self.lock.needed());
        if holds.iter().any(|hold| hold.is_awaited()) {
            // All parts of it are from now on.
            confirm_soon(&self.lock.locks);
        }
        Found::Taken(held)
    }

    /// Gives back what a minority granted, here or in the background.
    fn undo(&self, granted: Vec<(usize, Grant)>) {
        let question = |(at, grant): &(usize, Grant)| {
            let lock = &self.lock.locks[*at];
            Request {
                client: &lock.core.redis,
                lock: &lock.key,
                call: script::release(&lock.key, &grant.owner),
            }
        };
        let requests: Vec<Request<'_>> = granted.iter().map(question).collect();
        let enough = Enough {
            needed: requests.len(),
            is_good: |_| true,
        };
        let answers = broadcast(&requests, enough, self.budget);
        for ((at, grant), answer) in granted.into_iter().zip(answers) {
            if answer.is_err() {
                let lock = &self.lock.locks[at];
                owner::retire();
                release_orphan(&lock.core, &lock.key, grant.owner, grant.terms);
            }
        }
    }
}
