//! Requests about one grant, and the functions that give the watchdog its new schedule.

use std::sync::Arc;

use crate::base::{CallBudget, LockKey, Moment};
use crate::core::Core;
use crate::error::{LostReason, Result};
use crate::local::{Grant, Hold};
use crate::protocol::{Verdict, verdicts};
use crate::request::Reply;
use crate::script::Call;
use crate::watchdog::{Renew, Renewal};

/// A renewal of a grant that a thread requests.
pub(crate) struct Renewing<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) grant: Arc<Grant>,
    pub(crate) renewal: Renewal,
}

impl Renewing<'_> {
    /// Sends the renewal until there is a clear reply, and applies that.
    pub(super) fn send(&self, budget: &CallBudget) -> Result<()> {
        let (key, call) = (self.grant.key(), self.renewal.call.clone());
        self.end(request_about_grant(self.core, key, call, budget))
    }

    /// Applies the reply.
    pub(crate) fn end(&self, reply: Result<GrantReply>) -> Result<()> {
        let reply = reply?;
        match reply.verdict {
            Verdict::Lost(reason) => end_as_lost(self.core, &self.grant, reason),
            Verdict::Done { .. } => {
                self.grant.renewed(reply.asked, &self.renewal);
                self.core.watchdog.reschedule(self.grant.id());
            }
        }
        Ok(())
    }
}

/// Ends a grant that Redis does not have any more.
pub(crate) fn end_as_lost(core: &Core, grant: &Grant, reason: LostReason) {
    core.watchdog.forget(grant.id());
    grant.lose(reason);
}

/// The reply to a call about one grant.
pub(crate) struct GrantReply {
    pub(crate) verdict: Verdict,
    /// A moment before the request was sent.
    pub(super) asked: Moment,
    /// Earlier copies of the request may have been executed.
    pub(super) is_ambiguous: bool,
    /// An earlier copy was sent to another server.
    pub(super) reached_another_server: bool,
}

impl GrantReply {
    /// Makes the watchdog look after the line if the script has called a client.
    pub(crate) fn new(core: &Core, key: &LockKey, verdict: Verdict, reply: &Reply) -> Self {
        if verdict.has_called() {
            core.watchdog.called(key);
        }
        Self {
            verdict,
            asked: reply.asked,
            is_ambiguous: reply.lost_copies.is_ambiguous(),
            reached_another_server: reply.lost_copies.reached_another_server(),
        }
    }
}

/// Sends a call about one grant until there is a clear reply.
pub(super) fn request_about_grant(
    core: &Core,
    key: &LockKey,
    call: Call,
    budget: &CallBudget,
) -> Result<GrantReply> {
    let reply = core.redis.request(key, call, budget);
    let reply = reply.map_err(|no_reply| *no_reply.error)?;
    let verdicts = verdicts(&reply.reply, 1);
    let verdicts = verdicts.map_err(|error| core.redis.refusal(key, error))?;
    Ok(GrantReply::new(core, key, verdicts[0], &reply))
}

/// Sends the release of a grant that no thread uses. Returns the verdict. If it gets no reply in
/// time, the watchdog repeats it until the lease has ended.
pub(super) fn release_unused(
    core: &Core,
    key: &LockKey,
    call: Call,
    lease_ends: Moment,
    budget: &CallBudget,
) -> Option<Verdict> {
    let reply = request_about_grant(core, key, call.clone(), budget);
    if reply.is_err() {
        let key = key.clone();
        let _ = core.watchdog.release_orphan(key, call, lease_ends);
    }
    reply.ok().map(|reply| reply.verdict)
}

/// Makes the watchdog write the hold count to Redis if the levels last.
pub(super) fn note_count(core: &Core, hold: &Hold) {
    let grant = hold.grant();
    if grant.begin_count_note() {
        core.watchdog.note(grant.id());
    }
}

/// Makes the watchdog read the schedule of a grant if this hold is due earlier than the watchdog
/// knows, and write the hold count to Redis if the levels last.
pub(super) fn note_level(core: &Core, hold: &Hold) {
    if hold.is_due_earlier() {
        core.watchdog.reschedule(hold.grant().id());
    }
    note_count(core, hold);
}

/// Makes the watchdog read the schedule of a grant that is due earlier than the watchdog knows.
pub(super) fn reschedule_if_earlier(core: &Core, grant: &Grant) {
    if grant.is_due_earlier() {
        core.watchdog.reschedule(grant.id());
    }
}
