//! Several requests that belong to one call, each to the server that has its lock.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};

use super::attempt::{Failure, REDIRECTIONS, Replied};
use super::fanout::Fanout;
use super::{
    FIRST_PAUSE, LONGEST_PAUSE, LostCopies, NoReply, RedisClient, Reply, lost_copies, timeout_cause,
};
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner;
use crate::error::{Cause, Error};
use crate::script::Call;
use crate::topology::Redirect;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// One request to the server of one client that has the lock.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) client: &'a RedisClient,
    pub(crate) lock: &'a LockKey,
    pub(crate) call: Call,
}

/// The number of good replies after which the others are not needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enough {
    pub(crate) needed: usize,
    pub(crate) is_good: fn(&Value) -> bool,
}

/// Sends each question once, on this thread: everything is sent before the first reply is read. As
/// soon as it is settled whether enough answers are good, the other replies are waited for as long
/// again, or as long as they usually take. A client whose server does not reply is left out for a
/// while, as long as there are enough others.
///
/// The thread's owner name is retired if a copy of a request may still be under way.
pub(crate) fn broadcast(
    requests: &[Request<'_>],
    enough: Enough,
    budget: &CallBudget,
) -> Vec<Result<Reply, NoReply>> {
    let mut requests: Vec<PendingRequest<'_>> = requests.iter().map(PendingRequest::new).collect();
    Fanout::new(&mut requests, Some(enough), budget.reply_deadline()).run();
    requests.iter_mut().for_each(PendingRequest::settle);
    finish(requests, budget)
}

/// Sends each question until it has a clear answer, all of them within one deadline, `reply_by`.
/// What goes to one server goes out together on one connection. Before another copy of a question
/// is sent, while an earlier one may be under way, `again` can put another call in its place. All
/// calls must be repeatable.
///
/// Nothing is sent once the deadline has passed.
///
/// The thread's owner name is retired if a copy of a request may still be under way.
pub(crate) fn request_batch(
    requests: &[Request<'_>],
    mut again: impl FnMut(usize) -> Option<Call>,
    reply_by: Moment,
    budget: &CallBudget,
) -> Vec<Result<Reply, NoReply>> {
    let mut requests: Vec<PendingRequest<'_>> = requests.iter().map(PendingRequest::new).collect();
    let (mut pause, mut redirections) = (Duration::ZERO, 0);
    while !reply_by.is_past() {
        let copies: Vec<u32> = requests.iter().map(|r| r.lost_copies.copies).collect();
        Fanout::new(&mut requests, None, reply_by).run();
        requests
            .iter_mut()
            .for_each(PendingRequest::settle_or_follow);
        let mut open = requests.iter().filter(|r| r.is_open()).peekable();
        if open.peek().is_none() {
            break;
        }
        let is_sent_on = open.all(|request| request.redirect.is_some());
        redirections += 1;
        if is_sent_on && redirections < REDIRECTIONS {
            continue;
        }
        redirections = 0;
        budget.park(pause.min(reply_by.left()));
        pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        for (place, request) in requests.iter_mut().enumerate() {
            if !request.is_open() {
                continue;
            }
            if is_sent_on {
                // The servers have sent it on to one another.
                request.redirect = None;
            }
            if let Err(interrupted) = budget.check_interrupt(request.question.lock.name()) {
                request.outcome = Some(Err(Failure::Final(interrupted)));
            } else if request.lost_copies.copies > copies[place] {
                request.newer = again(place).or(request.newer.take());
            }
        }
    }
    for request in &requests {
        request.announce(reply_by);
    }
    finish(requests, budget)
}

fn finish(requests: Vec<PendingRequest<'_>>, budget: &CallBudget) -> Vec<Result<Reply, NoReply>> {
    let requests = requests.into_iter();
    let outcomes: Vec<_> = requests.map(|request| request.finish(budget)).collect();
    if outcomes
        .iter()
        .any(|outcome| lost_copies(outcome).is_ambiguous())
    {
        owner::retire();
    }
    outcomes
}

/// A question, and what became of it so far.
pub(super) struct PendingRequest<'q> {
    pub(super) question: &'q Request<'q>,
    /// Replaces the question's own call after a copy of that got no reply.
    newer: Option<Call>,
    /// The target of the last redirection.
    pub(super) redirect: Option<Redirect>,
    /// The server that redirected.
    pub(super) sent_on_by: Option<Arc<Server>>,
    pub(super) lost_copies: LostCopies,
    /// What the last attempt brought. A request that has none is still to be sent.
    pub(super) outcome: Option<Result<Replied, Failure>>,
    /// Why earlier attempts failed.
    cause: Option<Cause>,
}

impl<'q> PendingRequest<'q> {
    fn new(question: &'q Request<'q>) -> Self {
        Self {
            question,
            newer: None,
            redirect: None,
            sent_on_by: None,
            lost_copies: LostCopies::default(),
            outcome: None,
            cause: None,
        }
    }

    pub(super) fn call(&self) -> &Call {
        self.newer.as_ref().unwrap_or(&self.question.call)
    }

    pub(super) fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    pub(super) fn is_asking(&self) -> bool {
        self.redirect.as_ref().is_some_and(|to| to.asking)
    }

    /// Keeps an outcome that another attempt would not change, else only its cause.
    fn settle(&mut self) {
        let failure = match self.outcome.take() {
            Some(Err(failure)) => failure,
            outcome => {
                self.outcome = outcome;
                return;
            }
        };
        match failure {
            Failure::NoServer(found) => self.cause = Some(found),
            Failure::NoSlot => {
                let cause = || "all client of the pool are in use".into();
                self.cause.get_or_insert_with(cause);
            }
            // An earlier error reply says more than a timeout.
            Failure::Redis(error) if error.is_timeout() => {
                self.cause
                    .get_or_insert_with(|| timeout_cause(&error).into());
            }
            Failure::Redis(error) if RetryAction::on(&error).asks_again() => {
                self.cause = Some(Box::new(error));
            }
            Failure::Redis(error) => self.refuse(error),
            Failure::Final(error) => self.outcome = Some(Err(Failure::Final(error))),
        }
    }

    /// Keeps an outcome that another attempt would not change, else only its cause. A redirection
    /// without a known target is final: the server belongs to a cluster, but the client was not
    /// built for one.
    fn settle_or_follow(&mut self) {
        match self.outcome.take() {
            Some(Err(Failure::Redis(error)))
                if RetryAction::on(&error) == RetryAction::Redirect && self.redirect.is_none() =>
            {
                self.refuse(error);
            }
            outcome => {
                self.outcome = outcome;
                self.settle();
            }
        }
    }

    fn refuse(&mut self, error: RedisError) {
        let Request { client, lock, .. } = self.question;
        let refusal = client.refusal(lock, error);
        self.outcome = Some(Err(Failure::Final(refusal)));
    }

    /// Also announces a release at the server from which the lock is migrating, because waiting
    /// threads may still listen there.
    fn announce(&self, reply_by: Moment) {
        if let (Some(Ok(replied)), Some(from)) = (&self.outcome, &self.sent_on_by)
            && self.is_asking()
            && self.call().has_released(&replied.reply)
        {
            let Request { client, lock, .. } = self.question;
            client.announce_at(from, lock, reply_by);
        }
    }

    fn finish(self, budget: &CallBudget) -> Result<Reply, NoReply> {
        let lost_copies = self.lost_copies;
        let error: Error = match self.outcome {
            Some(Ok(replied)) => {
                return Ok(Reply {
                    reply: replied.reply,
                    asked: replied.asked,
                    unreplicated: replied.unreplicated,
                    lost_copies,
                });
            }
            Some(Err(Failure::Final(error))) => error,
            _ => {
                let cause = self.cause.unwrap_or_else(|| "no reply in time".into());
                let Request { client, lock, .. } = self.question;
                client.unavailable(lock, budget, cause)
            }
        };
        Err(NoReply { error, lost_copies })
    }
}
