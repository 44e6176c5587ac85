//! Slots that move between the masters of a cluster.

use std::time::Duration;

use leasehold_simulation_world::random;

use crate::args::Args;
use crate::conductor::{Conductor, between};
use crate::deployment::Deployment;
use crate::faults::Undo;
use crate::kind::Kind;
use crate::slots::{Move, slot_of};

impl Conductor {
    /// Moves the slot of a lock to another master. Its keys follow one after the other.
    pub fn move_slot(&mut self) {
        let lock = random::index(self.args().locks as usize) as u32;
        let groups = self.deployment.groups.len();
        let from = self.deployment.group_of(lock);
        let to = (from + 1 + random::index(2)) % groups;
        let failed = [from, to].map(|group| self.deployment.groups[group].failed.is_some());
        let Some(slots) = &self.deployment.slots else {
            return;
        };
        let is_ready = slots.borrow().moving.is_none() && !failed.contains(&true);
        // The leases of permits are times of the server, so a right clock would end them early.
        if !is_ready || self.are_clocks_wrong() {
            return;
        }
        let slot = slot_of(Args::key(lock).as_bytes());
        self.note(&format!("slot {slot} moves from group {from} to {to}"));
        slots.borrow_mut().moving = Some(Move { slot, from, to });
        // What an earlier failover left there.
        let new = self.deployment.groups[to].master;
        let mut new = self.deployment.server(new);
        for key in new.keys_of(slot) {
            new.change_keys(|keys| keys.remove(&key));
        }
        drop(new);
        let most = [10, 100, 1000][random::index(3)];
        let time = between(Duration::from_millis(1), Duration::from_millis(most));
        self.later(time, Undo::MoveKeys);
        self.later(time * 2, Undo::MoveSlot);
    }

    /// Ends the move: the new master has the slot.
    pub fn end_move(&mut self) {
        let Some(moving) = self.deployment.moving() else {
            return;
        };
        self.deployment.end_move(moving);
        if self.args().kind.and_then(Kind::permits).is_some() {
            // The number of permits is not set again after a failover.
            let new = self.deployment.groups[moving.to].master;
            self.deployment.server(new).replication.flush();
        }
    }
}

impl Deployment {
    /// Moves one in two of the keys of the slot that moves, or all of them.
    pub fn move_keys(&self, all: bool) {
        let Some(moving) = self.moving() else {
            return;
        };
        let mut old = self.server(self.groups[moving.from].master);
        let mut new = self.server(self.groups[moving.to].master);
        for key in old.keys_of(moving.slot) {
            if !all && random::one_in(2) {
                continue;
            }
            let moved = old.change_keys(|keys| {
                let left = keys.time_to_live(&key);
                let value = keys.get(&key).map(|value| value.clone())?;
                keys.remove(&key);
                Some((value, left))
            });
            if let Some((value, left)) = moved {
                new.change_keys(|keys| {
                    keys.set(&key, value);
                    if left >= 0 {
                        keys.set_time_to_live(&key, Some(left.max(1)));
                    }
                });
            }
        }
    }

    fn end_move(&self, moving: Move) {
        self.move_keys(true);
        if let Some(slots) = &self.slots {
            slots.borrow_mut().assign();
        }
        let mut old = self.server(self.groups[moving.from].master);
        old.end_subscriptions(moving.slot);
    }

    pub fn moving(&self) -> Option<Move> {
        self.slots.as_ref()?.borrow().moving
    }
}
