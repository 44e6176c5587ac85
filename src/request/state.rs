//! A request, and what has come of it so far.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::client::RedisClient;
use super::prepared::Prepared;
use super::reply::{LostCopies, NoReply, Reply};
use crate::base::{CallBudget, LockKey, Moment};
use crate::error::{Cause, Error, Hint};
use crate::protocol::message::RELEASED;
use crate::script::Call;
use crate::topology::{Redirect, RouteError};
use crate::transport::link::Outgoing;
use crate::transport::links::Purpose;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;
use crate::transport::server_error::timeout_cause;

/// One request to the server of one client that has the lock.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) client: &'a RedisClient,
    pub(crate) lock: &'a LockKey,
    /// Further locks of the same call.
    pub(crate) others: Vec<&'a LockKey>,
    pub(crate) call: Call,
    /// The same request, which the subscriber thread may have sent already.
    pub(crate) prepared: Option<&'a Prepared>,
    /// It is not sent after this moment, and its reply is not waited for, although the call may
    /// have more time.
    pub(crate) until: Moment,
}

impl<'a> Request<'a> {
    /// A request for one lock.
    pub(crate) fn new(client: &'a RedisClient, lock: &'a LockKey, call: Call) -> Self {
        Self {
            client,
            lock,
            others: Vec::new(),
            call,
            prepared: None,
            until: Moment::NEVER,
        }
    }

    /// The error of an error reply, or of a reply in an unexpected form.
    pub(crate) fn refusal(&self, error: RedisError) -> Error {
        let locks = std::iter::once(self.lock).chain(self.others.iter().copied());
        let mut refusal = self.client.refusal_of_several(locks, self.lock, error);
        if let Error::Redis { hint, .. } = &mut refusal
            && self.call.is_too_long()
        {
            hint.get_or_insert_with(|| Hint::FewerNames.into());
        }
        refusal
    }
}

/// When the replies to these requests of one call must have arrived, if they are sent now.
pub(super) fn reply_deadline(requests: &[Request<'_>], budget: &CallBudget) -> Moment {
    let until = requests.iter().map(|request| request.until);
    until.fold(budget.reply_deadline(), Moment::min)
}

/// Why one attempt brought no reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was not sent, for this reason.
    NotSent(Cause),
    Redis(RedisError),
    /// Another attempt would fail, too.
    Final(Error),
}

impl Failure {
    pub(super) fn of_route(lock: &str, error: RouteError) -> Self {
        final_error(lock, error).map_or_else(Self::NotSent, Self::Final)
    }
}

/// The error of a look-up, or the cause if a later one can succeed.
pub(super) fn final_error(lock: &str, error: RouteError) -> Result<Error, Cause> {
    match error {
        RouteError::Unavailable(failed) => Err(failed.into()),
        RouteError::Refused(error) => Ok(Error::Redis {
            lock: lock.into(),
            node: error.node.as_ref().into(),
            cause: Arc::new(error.cause),
            hint: error.hint,
        }),
        RouteError::Invalid(error) => Ok(error.concerning(lock)),
    }
}

/// A request, and what has come of it so far.
///
/// An attempt sends each request without an outcome, and gives it one. Until the attempt is over, a
/// request with an error and a `redirect` is sent again at once. Then:
///
/// | `outcome` after the attempt | [`settle`](Self::settle) leaves | what follows |
/// |---|---|---|
/// | a reply | it | the result of the call |
/// | `Final` | it | the error of the call |
/// | an error that another attempt would have, too | `Final` | the error of the call |
/// | `NotSent`, or an error that may pass | its `cause` | [`next_step`](Self::next_step) |
/// | no reply in time | its `cause`, unless there is one | [`next_step`](Self::next_step) |
///
/// `next_step` makes the next copy. If the thread is interrupted, or if an earlier copy may be
/// executed and the call must not be repeated, the outcome is `Final` instead. When the time is
/// over, the error of the call has the last `cause`.
pub(super) struct RequestState<'q> {
    pub(super) request: &'q Request<'q>,

    // The next copy.
    /// Replaces the request's own call after a copy of that got no reply.
    newer: Option<Call>,
    /// The number of lost copies when the call was replaced last.
    replaced_after: u32,
    /// Sends the source of the script, and not its hash.
    pub(super) by_source: bool,
    /// Where the next copy goes, if not to the server that has the lock: to the one that a reply
    /// named, or once more to that of the last copy, which did not know the script, or on whose
    /// connection that copy broke.
    pub(super) redirect: Option<Redirect>,
    /// The server whose reply named another one.
    pub(super) redirected_by: Option<Arc<Server>>,

    // Since the last pause.
    /// How often it was sent again at once.
    pub(super) redirections: u32,
    /// It was sent again because of a broken connection.
    pub(super) is_resent: bool,

    // What the copies have brought.
    pub(super) lost_copies: LostCopies,
    /// What the last attempt brought: the reply, and when it was asked for.
    pub(super) outcome: Option<Result<(Value, Moment), Failure>>,
    /// Why earlier attempts failed.
    cause: Option<Cause>,
}

impl<'q> RequestState<'q> {
    pub(super) fn new(request: &'q Request<'q>) -> Self {
        Self {
            request,
            newer: None,
            replaced_after: 0,
            by_source: false,
            redirect: None,
            redirected_by: None,
            redirections: 0,
            is_resent: false,
            lost_copies: LostCopies::default(),
            outcome: None,
            cause: None,
        }
    }

    /// A request to this server, whether or not that has the lock.
    pub(super) fn to(request: &'q Request<'q>, server: &Arc<Server>) -> Self {
        let redirect = Redirect {
            server: Arc::clone(server),
            asking: false,
        };
        Self {
            redirect: Some(redirect),
            ..Self::new(request)
        }
    }

    pub(super) fn call(&self) -> &Call {
        self.newer.as_ref().unwrap_or(&self.request.call)
    }

    /// Appends the request in bytes.
    pub(super) fn pack(&self, out: &mut Outgoing<'_>) {
        if self.is_asking() {
            out.asking();
        }
        out.call(self.call(), self.by_source);
    }

    pub(super) fn is_asking(&self) -> bool {
        self.redirect.as_ref().is_some_and(|to| to.asking)
    }

    /// Whether another copy can be sent.
    pub(super) fn is_repeatable(&self) -> bool {
        self.call().is_repeatable() || !self.lost_copies.is_ambiguous()
    }

    /// After an attempt without an outcome: prepares the next copy of the request, or ends the
    /// request if it must have no further copy.
    pub(super) fn next_step(
        &mut self,
        next_call: impl FnOnce() -> Option<Call>,
        budget: &CallBudget,
    ) {
        let error = match budget.check_interrupt(self.request.lock.name()) {
            Ok(()) if self.is_repeatable() => return self.replace_call(next_call),
            Ok(()) => self.unavailable(budget),
            Err(interrupted) => interrupted,
        };
        self.outcome = Some(Err(Failure::Final(error)));
    }

    /// Replaces the call before another copy is sent, if a copy of it was lost.
    pub(super) fn replace_call(&mut self, next_call: impl FnOnce() -> Option<Call>) {
        if self.lost_copies.copies > self.replaced_after {
            self.replaced_after = self.lost_copies.copies;
            self.newer = next_call().or(self.newer.take());
        }
    }

    /// Keeps an outcome that another attempt would not change, else only its cause.
    pub(super) fn settle(&mut self) {
        (self.redirections, self.is_resent) = (0, false);
        let Some(Err(failure)) = self.outcome.take_if(|outcome| outcome.is_err()) else {
            return;
        };
        match failure {
            Failure::NotSent(cause) => self.cause = Some(cause),
            // An earlier error reply says more than a timeout.
            Failure::Redis(error) if error.is_timeout() => {
                self.cause
                    .get_or_insert_with(|| timeout_cause(&error).into());
            }
            Failure::Redis(error) if self.is_worth_another(&error) => {
                self.cause = Some(Box::new(error));
            }
            Failure::Redis(error) => {
                self.outcome = Some(Err(Failure::Final(self.request.refusal(error))));
            }
            Failure::Final(error) => self.outcome = Some(Err(Failure::Final(error))),
        }
    }

    /// Whether another attempt may have a reply. A redirection without a known target is final:
    /// the server belongs to a cluster, but the client was not built for one.
    fn is_worth_another(&self, error: &RedisError) -> bool {
        match RetryAction::on(error) {
            RetryAction::Redirect => self.redirect.is_some(),
            // The server may have a limit, and an error of its own for it.
            RetryAction::Unclear if self.call().is_too_long() => false,
            action => action.is_retryable(),
        }
    }

    /// Also announces a release at the server from which the lock is migrating, because waiting
    /// threads may still listen there.
    pub(super) fn announce(&self, reply_by: Moment) {
        if let (Some(Ok((reply, _))), Some(from)) = (&self.outcome, &self.redirected_by)
            && self.is_asking()
            && self.call().has_released(reply)
            && !reply_by.is_past()
        {
            let now = Moment::now();
            if let Some(link) = from.links(Purpose::Caller).choose(1, now, true) {
                let mut message = redis::cmd(from.node.publish().command());
                message.arg(&**self.request.lock.channel()).arg(RELEASED);
                let packed = message.get_packed_command();
                link.send(1, now, |out| out.commands(1, &packed));
            }
        }
    }

    fn unavailable(&mut self, budget: &CallBudget) -> Error {
        let cause = self.cause.take();
        let cause = cause.unwrap_or_else(|| "no reply in time".into());
        let Request { client, lock, .. } = self.request;
        client.unavailable(lock, budget, cause)
    }

    /// The reply or why there is none, and the moment before the request was sent.
    pub(super) fn into_replied(self) -> (RedisResult<Value>, Moment) {
        let cause = match self.outcome {
            Some(Ok((reply, asked))) => return (Ok(reply), asked),
            Some(Err(Failure::Redis(error))) => return (Err(error), Moment::NEVER),
            Some(Err(Failure::NotSent(cause))) => cause.to_string(),
            Some(Err(Failure::Final(error))) => error.to_string(),
            None => "it was not sent in time".into(),
        };
        let error = RedisError::from((ErrorKind::Io, "no server replied", cause));
        (Err(error), Moment::NEVER)
    }

    pub(super) fn finish(&mut self, budget: &CallBudget) -> Result<Reply, NoReply> {
        let mut lost_copies = std::mem::take(&mut self.lost_copies);
        lost_copies.settle();
        let error = match self.outcome.take() {
            Some(Ok((reply, asked))) => {
                return Ok(Reply {
                    reply,
                    asked,
                    lost_copies,
                });
            }
            Some(Err(Failure::Final(error))) => error,
            _ => self.unavailable(budget),
        };
        Err(NoReply {
            error: error.into(),
            lost_copies,
        })
    }
}
