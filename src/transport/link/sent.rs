//! Requests that one thread has sent together on a link, and its wait for their replies.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use rustix::event::{PollFd, PollFlags};

use super::Link;
use super::pending::{Outcome, Pending, Waker};
use crate::base::{List, Moment};
use crate::script::Call;
use crate::transport::socket::wait;

/// How much longer a thread waits whose replies have arrived, but are not given to it yet: the
/// thread that reads has no processor. A server that sends without end makes each wait this much
/// longer.
const LATE: Duration = Duration::from_millis(40);

/// Requests on a link. Their replies are recorded until this and all copies are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) link: Arc<Link>,
    pub(crate) pending: Arc<Pending>,
    /// Before they were sent.
    pub(crate) sent_at: Moment,
}

/// A request whose reply no thread waits for any longer.
#[derive(Clone, Debug)]
pub(crate) struct SentCopy {
    sent: Sent,
    index: usize,
}

impl SentCopy {
    /// What became of the request by now.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let Sent { link, pending, .. } = &self.sent;
        pending.outcome(self.index).or_else(|| {
            link.read_if_unread();
            pending.outcome(self.index)
        })
    }

    /// Sends a call by its source. It is executed after this request, if this one is executed at
    /// all. No reply is waited for.
    pub(crate) fn follow(&self, call: &Call) {
        let link = &self.sent.link;
        link.choose(1);
        link.send(1, Moment::now(), |out| out.call(call, true));
    }
}

impl Sent {
    /// Waits for all replies until this moment, or until nothing has arrived on the link for
    /// `timeout`. What has arrived by then is read.
    pub(crate) fn wait(&self, until: Moment, timeout: Duration) {
        let deadline = |unanswered_since: Moment| until.min(unanswered_since.after(timeout));
        let mut reads = self.begin_wait(None);
        // Set once the deadline is over, although replies have arrived.
        let mut end = Moment::ZERO;
        while !reads {
            let wake_at = end.max(deadline(self.link.unanswered_since()));
            if self.pending.sleep(wake_at) {
                reads = self.pending.take_reading();
                // Woken without the right to read: all outcomes are known.
                if !reads {
                    break;
                }
            } else if deadline(self.link.unanswered_since()).is_past() {
                if end != Moment::ZERO || !self.link.has_arrived() {
                    break;
                }
                end = Moment::now().after(LATE);
            }
        }
        if reads {
            self.link.read_until(Some(&self.pending), deadline);
        }
        self.end_wait(reads);
    }

    /// True if this thread has the right to read now. Otherwise it may be given the right, or is
    /// woken when all outcomes are known.
    fn begin_wait(&self, waker: Option<&Arc<Waker>>) -> bool {
        self.link.begin_reading() || {
            // Before the second look: the thread that reads gives its right to one that waits.
            self.pending.begin_wait(waker);
            self.link.begin_reading()
        }
    }

    /// Gives the right to read to another thread that waits.
    fn end_wait(&self, reads: bool) {
        if self.pending.end_wait() || reads {
            self.link.pass_reading_on();
        }
    }

    /// The request with this index, of which it is unknown whether it is executed.
    pub(crate) fn copy(&self, index: usize) -> SentCopy {
        let sent = self.clone();
        SentCopy { sent, index }
    }
}

/// Waits until a reply may have arrived for one of these, or the deadline has passed, and takes
/// what has arrived.
pub(crate) fn wait_for_any<'s>(
    sent: impl Iterator<Item = &'s Sent>,
    mut deadline: Moment,
) -> RedisResult<()> {
    let waker = Waker::take()?;
    let sent: List<(&Sent, bool)> = sent
        .map(|one| (one, one.begin_wait(Some(&waker))))
        .collect();
    // Each is looked at after the thread has begun to wait for it. What another thread takes before
    // is seen here, and what it takes later wakes this thread.
    for (one, reads) in &sent {
        if *reads {
            // TLS may have decrypted more than the thread that read before has taken.
            one.link.read_available(&one.pending);
        }
        if one.pending.is_woken() {
            deadline = Moment::ZERO;
        }
    }
    let readable = readable(&sent, &waker, deadline);
    // A signal that comes after this ends a later wait too early, which does no harm.
    waker.clear();
    let mut is_readable = readable.iter().flatten();
    for (one, mut reads) in sent {
        let is_given = !reads && one.pending.take_reading();
        if is_given || reads && is_readable.next() == Some(&true) {
            reads = true;
            one.link.read_available(&one.pending);
        }
        one.end_wait(reads);
    }
    Waker::give_back(waker);
    readable.map(drop)
}

/// Waits until something arrives on one of the links that this thread reads, or another thread
/// wakes this one.
fn readable(sent: &[(&Sent, bool)], waker: &Waker, deadline: Moment) -> RedisResult<List<bool>> {
    let readers = sent.iter().filter(|(_, reads)| *reads);
    let mut polled: List<PollFd<'_>> = readers.map(|(one, _)| one.link.polled()).collect();
    polled.push(PollFd::new(waker.socket(), PollFlags::IN));
    wait(&mut polled, deadline)?;
    Ok(polled.iter().map(|one| !one.revents().is_empty()).collect())
}
