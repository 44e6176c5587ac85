//! Requests that one thread has sent together on a link, and its wait for their replies.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};
use rustix::event::{PollFd, PollFlags};

use super::Link;
use super::ticket::{Bell, Outcome, Ticket, Woken};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::script::Publish;
use crate::transport::socket::wait;

/// How much longer a thread waits whose replies have arrived, but are not given to it yet: the thread
/// that reads has no processor.
const LATE: Duration = Duration::from_millis(100);

/// Requests on a link. Dropping them abandons them.
pub(crate) struct Sent {
    link: Arc<Link>,
    ticket: Arc<Ticket>,
    /// Before they were sent.
    pub(crate) sent_at: Moment,
    /// A reply had arrived on the link before.
    pub(crate) is_reused: bool,
    /// This thread has the right to read.
    pub(super) reads: bool,
    /// Perhaps no thread reads the link.
    pub(super) may_be_unread: bool,
    is_finished: bool,
}

/// A request whose reply no thread waits for any longer.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    link: Arc<Link>,
    ticket: Arc<Ticket>,
    place: usize,
}

impl Copy {
    /// What became of the request by now.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let outcome = self.ticket.outcome(self.place);
        outcome.or_else(|| {
            self.link.read_if_unread(&self.ticket);
            self.ticket.outcome(self.place)
        })
    }

    /// Sends a request that is executed after this one, if this one is executed at all. No reply is
    /// waited for.
    pub(crate) fn follow(&self, pack: impl FnOnce(Publish, &mut Vec<u8>)) {
        self.link.send_only(pack);
    }
}

impl Sent {
    pub(super) fn new(
        link: Arc<Link>,
        ticket: Arc<Ticket>,
        sent_at: Moment,
        is_reused: bool,
    ) -> Self {
        Self {
            link,
            ticket,
            sent_at,
            is_reused,
            reads: false,
            may_be_unread: false,
            is_finished: false,
        }
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ticket.is_over()
    }

    /// Since when nothing has arrived on the link while something is awaited.
    pub(crate) fn silent_since(&self) -> Moment {
        self.link.silent_since()
    }

    /// Waits for all replies: until this moment, and as long as no silence of the link lasts for
    /// `silence`. What has arrived by then is read.
    pub(crate) fn wait(&mut self, until: Moment, silence: Duration) {
        let deadline = |silent_since: Moment| until.min(silent_since.after(silence));
        let mut end = Moment::ZERO;
        if std::mem::take(&mut self.may_be_unread) {
            self.ticket.begin_wait();
            self.reads |= self.link.begin_reading();
        }
        loop {
            if self.reads {
                return self.link.read_until(&self.ticket, deadline);
            }
            match self
                .ticket
                .sleep(end.max(deadline(self.link.silent_since())))
            {
                Woken::Over => return,
                Woken::Reads => self.reads = self.ticket.take_reading(),
                Woken::ByDeadline if !deadline(self.link.silent_since()).is_past() => {}
                Woken::ByDeadline => {
                    if end != Moment::ZERO || !self.link.has_arrived() {
                        return;
                    }
                    end = Moment::now().after(LATE);
                }
            }
        }
    }

    /// The reply to a single request, if it is there and is no error reply. Finishes the wait then.
    pub(crate) fn take_reply(&mut self) -> Option<(Value, Moment)> {
        let reply = self.ticket.take_reply()?;
        self.finish();
        Some(reply)
    }

    /// The outcomes that are known. The others are not waited for any longer.
    pub(crate) fn finish(&mut self) -> List<Option<Outcome>> {
        self.is_finished = true;
        let (outcomes, has_got_reading) = self.ticket.abandon();
        if std::mem::take(&mut self.reads) || has_got_reading {
            self.link.hand_over();
        }
        outcomes
    }

    /// The request at this place, which has no outcome yet.
    pub(crate) fn copy(&self, place: usize) -> Copy {
        Copy {
            link: Arc::clone(&self.link),
            ticket: Arc::clone(&self.ticket),
            place,
        }
    }

    /// True if the link broke because it had been idle, or because of its name: that says nothing of
    /// its server.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_reused || self.link.lost_its_name()
    }

    /// Prepares a wait for several links. True if there is something to do at once.
    fn begin_poll(&mut self, bell: &Arc<Bell>) -> bool {
        if std::mem::take(&mut self.may_be_unread) {
            self.ticket.begin_wait();
        }
        if !self.reads {
            self.reads = self.link.begin_reading() || self.ticket.take_reading();
        }
        !self.reads && self.ticket.ring(bell)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if !self.is_finished {
            self.finish();
        }
    }
}

/// Waits until a reply may have arrived for one of these, or the deadline has passed, and takes what
/// has arrived.
pub(crate) fn wait_for_any<'s>(
    sent: impl Iterator<Item = &'s mut Sent>,
    deadline: Moment,
) -> RedisResult<()> {
    let bell = Bell::of_this_thread()?;
    let mut open: List<&mut Sent> = sent.filter(|one| !one.is_over()).collect();
    let mut is_ready = false;
    for one in &mut open {
        is_ready |= one.begin_poll(&bell);
    }
    let deadline = if is_ready { Moment::ZERO } else { deadline };
    let readable: List<bool> = {
        let readers = open.iter().filter(|one| one.reads);
        let mut polled: List<PollFd<'_>> = readers.map(|one| one.link.polled()).collect();
        polled.push(PollFd::new(bell.socket(), PollFlags::IN));
        wait(&mut polled, deadline)?;
        polled.iter().map(|one| !one.revents().is_empty()).collect()
    };
    bell.silence();
    for (one, _) in open
        .iter_mut()
        .filter(|one| one.reads)
        .zip(readable)
        .filter(|(_, is)| *is)
    {
        one.link.read_available(&one.ticket);
    }
    for one in open.iter_mut().filter(|one| one.reads && one.is_over()) {
        one.reads = false;
        one.link.hand_over();
    }
    Ok(())
}
