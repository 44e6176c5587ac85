//! The server: available and leased permits, and the scripts `lua/permit_*.lua`.

use super::{Bounds, Planted};
use crate::redis::{OwnerIds, Script};

/// A leased permit. It stays until it is released, or until an acquire finds it expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permit {
    pub worker: u8,
    pub id: u8,
    /// Ticks until it expires.
    pub left: u8,
    /// The number of ticks for which no worker has used it, and no command that may extend it was
    /// under way. Only the promises read this field.
    pub unused: u8,
}

/// A script call. The ids of an acquire are its new one, `to`, and those of older copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command {
    pub script: Script,
    pub worker: u8,
    pub ids: OwnerIds,
    pub to: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    Done,
    /// No permit is available, or none has one of the ids.
    No,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redis {
    pub available: i8,
    pub leases: Vec<Permit>,
}

impl Permit {
    pub fn is_of(&self, worker: usize, ids: OwnerIds) -> bool {
        self.worker as usize == worker && ids.has(self.id)
    }
}

impl Redis {
    /// True if a permit with one of these ids is leased, expired or not.
    pub fn has(&self, worker: usize, ids: OwnerIds) -> bool {
        self.leases.iter().any(|permit| permit.is_of(worker, ids))
    }

    /// Runs a script.
    pub fn run(&mut self, command: &Command, bounds: &Bounds) -> Reply {
        let worker = command.worker as usize;
        let is_meant = |permit: &Permit| permit.is_of(worker, command.ids);
        match command.script {
            Script::Acquire => return self.acquire(command, bounds),
            Script::Release => {
                let before = self.leases.len();
                self.leases.retain(|permit| !is_meant(permit));
                let mut released = before - self.leases.len();
                if bounds.has(Planted::ReleaseUnchecked) {
                    released = released.max(1);
                }
                self.available += released as i8;
                if released == 0 {
                    return Reply::No;
                }
            }
            Script::Renew => {
                let mut found = self.leases.iter_mut().filter(|permit| is_meant(permit));
                let revives = bounds.has(Planted::ExpiredRenewed);
                if let Some(permit) = found.find(|permit| permit.left > 0 || revives) {
                    permit.left = bounds.lease;
                } else if bounds.has(Planted::RenewUnchecked) {
                    self.lease(command, command.to, bounds);
                } else {
                    return Reply::No;
                }
            }
        }
        Reply::Done
    }

    fn acquire(&mut self, command: &Command, bounds: &Bounds) -> Reply {
        let worker = command.worker as usize;
        let looks = !bounds.has(Planted::CopyTakesAnother);
        let mut mine = self.leases.iter_mut();
        if let Some(permit) = mine.find(|permit| looks && permit.is_of(worker, command.ids)) {
            (permit.id, permit.left, permit.unused) = (command.to, bounds.lease, 0);
            return Reply::Done;
        }
        let limit = u8::from(bounds.has(Planted::OtherClock));
        let expired = self.leases.iter().filter(|permit| permit.left <= limit);
        self.available += expired.count() as i8;
        if !bounds.has(Planted::ExpiredTwice) {
            self.leases.retain(|permit| permit.left > limit);
        }
        if self.available <= 0 {
            return Reply::No;
        }
        self.available -= 1;
        self.lease(command, command.to, bounds);
        Reply::Done
    }

    fn lease(&mut self, command: &Command, id: u8, bounds: &Bounds) {
        self.leases.push(Permit {
            worker: command.worker,
            id,
            left: bounds.lease,
            unused: 0,
        });
    }
}
