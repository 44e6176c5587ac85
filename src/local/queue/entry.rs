//! What the queue knows of one lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Waiter;
use super::readers::Readers;
use crate::base::{HolderId, List, Moment};
use crate::local::grant::{Grant, Hold};
use crate::local::yields::{SLICE, Yields};

/// One lock. It exists while a thread holds the lock, requests it or waits for it, while a grant is
/// idle, and while other clients compete for it.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) ticket: Ticket,
    /// The holds without the ticket: those that do not exclude each other, and one that was
    /// adopted.
    pub(super) readers: Readers,
    /// The threads that wait for the ticket, in their order.
    pub(super) waiting: VecDeque<Arc<Waiter>>,
    /// Waiting threads whose own deadline is past. They wait only for the reply to the thread that
    /// has the ticket.
    pub(super) await_reply: Vec<Arc<Waiter>>,
    /// The grant that no thread uses.
    pub(super) idle: Option<Arc<Grant>>,
    /// The lost holds that their threads have not unlocked. A thread that acquires or unlocks the
    /// lock finds its lost hold here.
    pub(super) lost: Vec<Arc<Hold>>,
    /// What is known of other clients, if any compete. Most locks have none, so it is boxed.
    pub(super) yields: Option<Box<Yields>>,
}

/// The ticket of a lock, and which thread has it.
///
/// | event | before | after |
/// |---|---|---|
/// | a thread takes it, or it is passed on to one that waits | `Free` | `Requests` |
/// | the lock is granted to that thread, or was idle | `Requests` | `Holds` |
/// | the thread gives it back, or has a shared hold or a permit now | `Requests` | `Free` |
/// | the hold ends, and its grant is handed over | `Holds` | `Holds` |
/// | the hold ends, and its grant is lost while it is handed over | `Holds` | `Requests` |
/// | the hold ends, and its grant is idle, released or lost | `Holds` | `Free` |
#[derive(Debug, Default)]
pub(super) enum Ticket {
    #[default]
    Free,
    /// This thread requests the lock.
    Requests {
        holder: HolderId,
        /// Set while there is no reply to the requests of this thread, and of the threads that had
        /// the ticket before it: when the first of them was sent.
        unanswered_since: Option<Moment>,
    },
    /// The thread of this hold has the ticket. The hold may have [just
    /// ended](Entry::has_just_ended).
    Holds(Arc<Hold>),
}

impl Ticket {
    pub(super) fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    pub(super) fn is_of(&self, holder: HolderId) -> bool {
        match self {
            Self::Free => false,
            Self::Requests { holder: other, .. } => *other == holder,
            Self::Holds(hold) => hold.holder == holder,
        }
    }

    /// Since when there is no reply, if a thread requests the lock.
    pub(super) fn unanswered_since(&mut self) -> Option<&mut Option<Moment>> {
        match self {
            Self::Requests {
                unanswered_since, ..
            } => Some(unanswered_since),
            Self::Free | Self::Holds(_) => None,
        }
    }
}

impl Entry {
    /// True if no thread holds the lock, has the ticket or waits for it.
    pub(super) fn is_free(&self) -> bool {
        self.ticket.is_free() && self.waiting.is_empty() && self.readers.is_empty()
    }

    /// True if the ticket is free for a thread that wants a shared hold or an exclusive one.
    pub(super) fn has_ticket_for(&self, is_shared: bool) -> bool {
        self.ticket.is_free() && (is_shared || self.readers.is_empty())
    }

    /// True if a thread that comes now gets the ticket.
    pub(super) fn is_open_to(&self, is_shared: bool) -> bool {
        self.has_ticket_for(is_shared) && self.waiting.is_empty()
    }

    /// True if a thread or a grant of this process needs the entry.
    pub(super) fn is_needed(&self) -> bool {
        !self.is_free() || self.idle.is_some() || !self.lost.is_empty()
    }

    pub(super) fn is_unused(&self) -> bool {
        !self.is_needed() && self.is_fresh()
    }

    /// True if nothing is known of other clients that a new entry would not know.
    pub(super) fn is_fresh(&self) -> bool {
        let yields = self.yields.as_ref();
        yields.is_none_or(|yields| yields.is_fresh())
    }

    /// For how long a grant may be handed over that had this many `holds`.
    pub(super) fn slice(&self, holds: u64) -> Duration {
        let yields = self.yields.as_ref();
        yields.map_or(SLICE, |yields| yields.slice(holds))
    }

    /// True if the hold with the ticket has just ended, and what follows is not decided.
    pub(super) fn has_just_ended(&self) -> bool {
        let hold = self.hold();
        self.readers.is_empty() && hold.is_some_and(|hold| hold.grant().is_free())
    }

    pub(super) fn hold(&self) -> Option<&Arc<Hold>> {
        match &self.ticket {
            Ticket::Holds(hold) => Some(hold),
            Ticket::Free | Ticket::Requests { .. } => None,
        }
    }

    /// The holds that are not lost.
    pub(super) fn holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.hold().into_iter().chain(self.readers.holds())
    }

    /// The grants that Redis cannot have together with this hold: the idle one, and those of the
    /// holds of others.
    pub(super) fn excluded_by(&self, hold: &Hold) -> List<Arc<Grant>> {
        if self.hold().is_none() && self.readers.is_empty() && self.idle.is_none() {
            // Nearly always.
            return List::new();
        }
        let others = self.holds().filter(|other| other.holder != hold.holder);
        let others = others.map(|other| other.grant()).chain(self.idle.clone());
        let excluded = others.filter(|other| !(other.kind.is_shared && hold.is_shared()));
        excluded.collect()
    }

    /// True if this hold has the ticket.
    pub(super) fn is_ticket_of(&self, hold: &Arc<Hold>) -> bool {
        self.hold().is_some_and(|own| Arc::ptr_eq(own, hold))
    }

    /// True if this hold has the ticket, or is a shared one.
    pub(super) fn is_current(&self, hold: &Arc<Hold>) -> bool {
        self.is_ticket_of(hold) || self.readers.has(hold)
    }

    /// Removes a hold, lost or not, with its ticket if it has that.
    pub(super) fn remove(&mut self, hold: &Arc<Hold>) -> Option<Arc<Hold>> {
        if self.is_ticket_of(hold) {
            self.ticket = Ticket::Free;
            return Some(Arc::clone(hold));
        }
        let lost = self.lost.iter().position(|lost| Arc::ptr_eq(lost, hold));
        let lost = lost.map(|at| self.lost.swap_remove(at));
        lost.or_else(|| self.readers.remove(hold))
    }

    /// Keeps a lost hold until its thread unlocks it.
    pub(super) fn add_lost(&mut self, hold: Arc<Hold>, removed: &mut List<Arc<Hold>>) {
        self.lost.push(hold);
        self.remove_ended(removed);
    }

    /// Removes the lost holds that no thread can unlock, because their threads have ended.
    pub(super) fn remove_ended(&mut self, removed: &mut List<Arc<Hold>>) {
        let ended = self.lost.extract_if(.., |hold| hold.liveness.has_ended());
        removed.extend(ended);
    }

    /// The shared or exclusive hold of a thread that it has not unlocked yet, lost or not.
    pub(super) fn hold_of(&self, holder: HolderId, is_shared: bool) -> Option<&Arc<Hold>> {
        let is_own = |hold: &&Arc<Hold>| hold.holder == holder && hold.is_shared() == is_shared;
        let current = match is_shared {
            true => self.readers.of(holder).filter(is_own),
            false => self.hold().filter(is_own),
        };
        current.or_else(|| self.lost.iter().find(is_own))
    }
}
