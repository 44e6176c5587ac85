//! Requests that one thread has sent together on a link, and its wait for their replies.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};
use rustix::event::{PollFd, PollFlags};

use super::Link;
use super::pending::{Outcome, Pending, Waker, Woken};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::script::Call;
use crate::transport::socket::wait;

/// How much longer a thread waits whose replies have arrived, but are not given to it yet: the
/// thread that reads has no processor.
const LATE: Duration = Duration::from_millis(100);

/// Requests on a link. Their replies are recorded until this and all copies are dropped.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) link: Arc<Link>,
    pub(super) pending: Arc<Pending>,
    /// Before they were sent.
    pub(crate) sent_at: Moment,
    /// This thread has the right to read. It has it only while it waits.
    pub(super) reads: bool,
    /// Other threads may give it the right to read.
    pub(super) is_waiting: bool,
}

/// A request whose reply no thread waits for any longer.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    link: Arc<Link>,
    pending: Arc<Pending>,
    place: usize,
}

impl Copy {
    /// What became of the request by now.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let outcome = self.pending.outcome(self.place);
        outcome.or_else(|| {
            self.link.read_if_unread();
            self.pending.outcome(self.place)
        })
    }

    /// Sends a call by its source. It is executed after this request, if this one is executed at
    /// all. No reply is waited for.
    pub(crate) fn follow(&self, call: &Call) {
        self.link.choose(1);
        self.link.send(1, Moment::now(), |out| out.call(call, true));
    }
}

impl Sent {
    pub(crate) fn is_over(&self) -> bool {
        self.pending.is_over()
    }

    /// Waits for all replies until this moment, or until nothing has arrived on the link for
    /// `timeout`. What has arrived by then is read.
    pub(crate) fn wait(&mut self, until: Moment, timeout: Duration) {
        let deadline = |unanswered_since: Moment| until.min(unanswered_since.after(timeout));
        self.begin_wait();
        let mut end = Moment::ZERO;
        loop {
            if self.reads {
                self.link.read_until(Some(&self.pending), deadline);
                break;
            }
            match self
                .pending
                .sleep(end.max(deadline(self.link.unanswered_since())))
            {
                Woken::Over => break,
                Woken::Reads => self.reads = self.pending.take_reading(),
                Woken::ByDeadline if !deadline(self.link.unanswered_since()).is_past() => {}
                Woken::ByDeadline => {
                    if end != Moment::ZERO || !self.link.has_arrived() {
                        break;
                    }
                    end = Moment::now().after(LATE);
                }
            }
        }
        self.end_wait();
    }

    fn begin_wait(&mut self) {
        self.reads = self.link.begin_reading();
        if !self.reads {
            // Before the second look: the thread that reads gives its right to one that waits.
            self.is_waiting = true;
            self.pending.begin_wait();
            self.reads = self.link.begin_reading();
        }
    }

    /// Gives the right to read to another thread that waits.
    fn end_wait(&mut self) {
        let has_got_reading = std::mem::take(&mut self.is_waiting) && self.pending.end_wait();
        if std::mem::take(&mut self.reads) || has_got_reading {
            self.link.hand_over();
        }
    }

    /// The reply to a single request, if it is there and is no error reply.
    pub(crate) fn take_reply(&self) -> Option<(Value, Moment)> {
        self.pending.take_reply()
    }

    /// The outcomes that are known.
    pub(crate) fn outcomes(&self) -> List<Option<Outcome>> {
        self.pending.outcomes()
    }

    /// The request at this place, which has no outcome yet.
    pub(crate) fn copy(&self, place: usize) -> Copy {
        Copy {
            link: Arc::clone(&self.link),
            pending: Arc::clone(&self.pending),
            place,
        }
    }

    /// Begins a wait for several links. True if it need not sleep.
    fn begin_poll(&mut self, waker: &Arc<Waker>) -> bool {
        self.begin_wait();
        if self.reads {
            // TLS may have decrypted more than the thread that read before has taken.
            self.link.read_available(&self.pending);
            return self.is_over();
        }
        self.pending.set_waker(waker)
    }
}

/// Waits until a reply may have arrived for one of these, or the deadline has passed, and takes
/// what has arrived.
pub(crate) fn wait_for_any<'s>(
    sent: impl Iterator<Item = &'s mut Sent>,
    deadline: Moment,
) -> RedisResult<()> {
    let waker = Waker::of_this_thread()?;
    let mut open: List<&mut Sent> = sent.filter(|one| !one.is_over()).collect();
    let mut is_ready = false;
    for one in &mut open {
        is_ready |= one.begin_poll(&waker);
    }
    let deadline = if is_ready { Moment::ZERO } else { deadline };
    let readable = readable(&open, &waker, deadline);
    waker.clear();
    let mut is_readable = readable.iter().flatten();
    for one in &mut open {
        let is_given = !one.reads && one.pending.take_reading();
        if is_given || one.reads && is_readable.next() == Some(&true) {
            one.reads = true;
            one.link.read_available(&one.pending);
        }
    }
    open.iter_mut().for_each(|one| one.end_wait());
    readable.map(drop)
}

/// Waits until something arrives on one of the links that this thread reads, or another thread
/// wakes this one.
fn readable(open: &[&mut Sent], waker: &Waker, deadline: Moment) -> RedisResult<List<bool>> {
    let readers = open.iter().filter(|one| one.reads);
    let mut polled: List<PollFd<'_>> = readers.map(|one| one.link.polled()).collect();
    polled.push(PollFd::new(waker.socket(), PollFlags::IN));
    wait(&mut polled, deadline)?;
    Ok(polled.iter().map(|one| !one.revents().is_empty()).collect())
}
