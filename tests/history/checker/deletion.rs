//! The deletions of keys, and which holds they may have ended.

use super::History;
use super::calls::Hold;
use super::span::Span;

/// The deletion of a key, at some time from `from` to `to`.
#[derive(Clone, Copy, Debug)]
pub struct Deletion {
    pub from: u64,
    pub to: u64,
    /// All tokens granted before are at most this one.
    pub token: Option<u64>,
    /// False after a failover or a change of the clock: Redis may still have the key.
    pub is_certain: bool,
}

impl Deletion {
    /// True if it may have deleted the key of this hold's grant. Threads may begin holds on one
    /// grant for `reuse`, also after its key was deleted. With tokens it is certain: those granted
    /// before are not greater.
    fn may_end(self, hold: &Hold, reuse: u64) -> bool {
        match hold.token.zip(self.token) {
            Some((token, last)) => token <= last,
            None => self.to + reuse >= hold.asked,
        }
    }
}

impl History {
    /// The first deletion that may have ended the hold.
    pub fn deleted(&self, hold: &Hold) -> Option<Deletion> {
        self.deletions(hold).min_by_key(|deletion| deletion.from)
    }

    /// The deletions that may have ended the hold.
    pub fn deletions<'a>(&'a self, hold: &'a Hold) -> impl Iterator<Item = Deletion> + 'a {
        let deletions = self
            .deletions
            .get(&hold.lock)
            .into_iter()
            .flatten()
            .copied();
        deletions.filter(|deletion| deletion.may_end(hold, self.reuse))
    }

    /// True if the lock can be held after the deletion: a failover undid it, or it was at a server
    /// whose place another one took.
    pub fn may_be_undone(&self, lock: u32, deletion: Deletion) -> bool {
        let failovers = self.failovers.get(&lock).into_iter().flatten();
        let (from, to) = (deletion.from, deletion.to);
        failovers
            .copied()
            .any(|failover| failover.from <= to && from <= failover.to)
    }

    /// True if the hold began on a grant that the threads of its process did not know to be
    /// deleted. After a failover, the old master can still have granted locks.
    pub fn began_after_deletion(&self, hold: &Hold) -> bool {
        self.deleted(hold)
            .is_some_and(|deletion| match deletion.is_certain {
                true => deletion.from < hold.asked,
                false => deletion.from < hold.since,
            })
    }

    /// True if a master that another one had replaced may have granted the hold.
    pub fn may_be_of_old_master(&self, hold: &Hold) -> bool {
        let mut deletions = self.deletions(hold);
        deletions.any(|deletion| !deletion.is_certain && deletion.from < hold.since)
    }

    /// When the hold is known to be valid: from the return of its acquire to its last confirmation,
    /// but no longer than until its key may have been deleted.
    pub fn vouched(&self, hold: &Hold) -> Option<Span> {
        let deleted = self
            .deleted(hold)
            .map_or(u64::MAX, |deletion| deletion.from);
        let Span { from, to } = hold.confirmed()?;
        let to = to.min(deleted);
        (from <= to).then_some(Span { from, to })
    }
}
