//! How many of several locks are needed, how requests about them are sent, and their results.

use std::sync::Arc;

use redis::Value;

use crate::base::{CallBudget, List, Moment};
use crate::core::Core;
use crate::engine::{Ask, NotGranted};
use crate::error::{Error, Result};
use crate::local::Granted;
use crate::protocol::AcquireOptions;
use crate::request::{NoReply, Reply, Request, confirmed, request_batch, request_majority};
use crate::script::{Call, granted};

/// How many locks of a composite are needed, which decides how requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// All. Each request is retried until there is a reply.
    All,
    /// This many of the servers. Each gets one request, and the call ends when enough have replied.
    Majority(usize),
}

impl Needed {
    /// The number of needed locks, of `locks` in all.
    pub(super) fn of(self, locks: usize) -> usize {
        match self {
            Self::All => locks,
            Self::Majority(needed) => needed,
        }
    }

    /// What is needed of the others, if this many are not needed any more.
    pub(super) fn less(self, done: usize) -> Self {
        match self {
            Self::All => Self::All,
            Self::Majority(needed) => Self::Majority(needed.saturating_sub(done)),
        }
    }

    /// Sends all of these requests for locks, none of which is sent after `until`. Returns what
    /// each has brought.
    pub(super) fn ask<'a>(
        self,
        asks: &mut [(Ask<'a>, AcquireOptions)],
        until: Moment,
        budget: &CallBudget,
    ) -> Vec<Result<Granted, NotGranted>> {
        let request = |(ask, options): &(Ask<'a>, AcquireOptions)| Request {
            until,
            ..ask.request(ask.call(options))
        };
        let requests: Vec<Request<'a>> = asks.iter().map(request).collect();
        let next_call = |at: usize| {
            let (ask, options) = &mut asks[at];
            Some(ask.next_copy(options))
        };
        let is_good = |reply: &_| granted(reply).is_some();
        let results = self.request(&requests, is_good, next_call, budget);
        let mut answers: Vec<Result<Granted, NotGranted>> = Vec::with_capacity(requests.len());
        let results = requests.iter().zip(results);
        for ((ask, options), (request, mut result)) in asks.iter_mut().zip(results) {
            // A majority needs no replicas. What was granted besides a refusal is released.
            if self == Self::All && answers.iter().all(Result::is_ok) {
                let next_call = |_| Some(ask.next_copy(options));
                result = confirmed(result, request, next_call, budget);
            }
            answers.push(ask.end(result, None));
        }
        answers
    }

    /// Sends all requests.
    pub(super) fn request(
        self,
        requests: &[Request<'_>],
        is_good: fn(&Value) -> bool,
        next_call: impl FnMut(usize) -> Option<Call>,
        budget: &CallBudget,
    ) -> List<Result<Reply, NoReply>> {
        match self {
            Self::All => request_batch(requests, next_call, budget),
            Self::Majority(needed) => {
                request_majority(requests, needed, is_good, next_call, budget)
            }
        }
    }
}

/// Combines the results of all locks, of which there are at least `needed`. `Ok` if that many are.
/// Otherwise the first error: a loss if the losses alone leave too few locks, else another error
/// before a loss.
pub(super) fn combine(
    results: impl ExactSizeIterator<Item = Result<()>>,
    needed: usize,
) -> Result<()> {
    debug_assert!(results.len() >= needed, "too few locks");
    let allowed = results.len().saturating_sub(needed);
    let mut errors: Vec<Error> = results.filter_map(Result::err).collect();
    if errors.len() <= allowed {
        return Ok(());
    }
    let is_loss = |error: &Error| matches!(error, Error::Lost { .. });
    let is_lost = errors.iter().filter(|error| is_loss(error)).count() > allowed;
    let first = errors.iter().position(|error| is_loss(error) == is_lost);
    Err(errors.swap_remove(first.unwrap_or_default()))
}

/// The largest value that `needed` of these reach.
pub(super) fn reached<T: Ord>(mut values: Vec<T>, needed: usize) -> Option<T> {
    values.sort_unstable_by(|one, other| other.cmp(one));
    values.into_iter().nth(needed.checked_sub(1)?)
}

/// The client with the longest command timeout. It sets the deadlines of a call to several clients.
pub(super) fn slowest<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> Option<&'a Arc<Core>> {
    cores.max_by_key(|core| core.command_timeout)
}

/// Each of these clients once, if equal ones follow each other.
pub(super) fn distinct<'a>(
    cores: impl Iterator<Item = &'a Arc<Core>>,
) -> impl Iterator<Item = &'a Arc<Core>> {
    let mut last = None;
    cores.filter(move |core| {
        let core = Arc::as_ptr(core);
        last.replace(core) != Some(core)
    })
}

/// False in a process that was forked from that of one of these clients.
pub(super) fn are_of_this_process<'a>(cores: impl Iterator<Item = &'a Arc<Core>>) -> bool {
    distinct(cores).all(|core| core.is_same_process())
}
