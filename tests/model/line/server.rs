//! The server: the scripts of the line.

use super::machine::{Bounds, Planted};
use super::promises::{KEPT, ONCE, ORDER};
use super::state::{Holder, Late, Reply, State, Subscription};

impl State {
    fn is_first(&self, c: usize) -> bool {
        self.line.first() == Some(&(c as u8))
    }

    fn remove(&mut self, c: usize) {
        if self.is_first(c) {
            self.mark = None;
        }
        self.line.retain(|place| *place != c as u8);
        let client = &mut self.clients[c];
        (client.owes, client.is_unsure) = (false, false);
    }

    /// A script of another client, or a fault, removes the place of a client.
    fn take_place(&mut self, c: usize) {
        let client = &mut self.clients[c];
        if client.waits() {
            let listens = client.subscription == Subscription::On;
            if client.responds() && listens && !client.owes {
                self.broken = Some(KEPT);
            }
            client.lost_place = listens;
        }
        self.remove(c);
    }

    fn call_next(&mut self, bounds: &Bounds) {
        while let Some(first) = self.line.first() {
            let c = *first as usize;
            let is_dead = !self.clients[c].counted && !bounds.has(Planted::DeadKept);
            if self.mark == Some(true) || is_dead {
                self.take_place(c);
                continue;
            }
            let client = &mut self.clients[c];
            match client.subscription {
                Subscription::On => client.call = true,
                _ => client.is_unsure |= !client.waits(),
            }
            if self.mark.is_none() && !bounds.has(Planted::NotMarked) {
                self.mark = Some(false);
                if client.owes {
                    self.broken = Some(ONCE);
                }
                client.owes = client.counted;
                self.polls = 0;
            }
            if bounds.has(Planted::DroppedAtCall) {
                self.line.remove(0);
            }
            return;
        }
    }

    /// A client leaves the line. If it was the first, the next one is called if the lock is free, or
    /// if Java holds it: then the next client asks, and learns that it has to listen to Java.
    pub fn leave(&mut self, c: usize, bounds: &Bounds) {
        let was_first = self.is_first(c);
        self.remove(c);
        let calls = match self.holder {
            None => !bounds.has(Planted::LeavesSilently),
            Some(Holder::Java) => !bounds.has(Planted::LeavesJavaSilently),
            Some(_) => false,
        };
        if was_first && calls {
            self.call_next(bounds);
        }
    }

    /// Executes an acquire. The thread that sent a late copy does not await its reply any more.
    pub fn acquire(&mut self, c: usize, waits: bool, is_late: bool, bounds: &Bounds) -> Reply {
        let (me, was_first) = (c as u8, self.is_first(c));
        let client = &mut self.clients[c];
        client.lost_place &= is_late;
        if was_first {
            self.silent &= is_late;
            client.owes = false;
        }
        match self.holder {
            Some(Holder::Ours(holder)) if holder == me && !is_late => return Reply::Granted,
            None if !waits
                || self.line.is_empty() && self.mark.is_none()
                || was_first
                || self.mark != Some(false)
                || bounds.has(Planted::Barges) =>
            {
                self.grant(c, waits, is_late, bounds);
                return Reply::Granted;
            }
            _ => {}
        }
        let by_java = self.holder == Some(Holder::Java);
        if !waits {
            self.leave(c, bounds);
        } else if !self.line.contains(&me) {
            self.line.push(me);
        } else if was_first && !bounds.has(Planted::MarkKept) {
            self.mark = None;
        }
        let rank = self.line.iter().position(|place| *place == me);
        Reply::Refused(by_java && rank.is_none_or(|rank| rank <= 1))
    }

    fn grant(&mut self, c: usize, waits: bool, is_late: bool, bounds: &Bounds) {
        let me = c as u8;
        let mut before = self.line.iter().take_while(|place| **place != me);
        let is_passed = before.any(|place| {
            let client = &self.clients[*place as usize];
            client.waits() && client.responds()
        });
        let is_announced = !self.silent && !self.by_java && self.mark != Some(true);
        if waits && is_passed && is_announced {
            self.broken = Some(ORDER);
        }
        if !self.is_first(c) && self.mark == Some(true) {
            if bounds.has(Planted::OldPlaceKept) {
                self.mark = None;
            } else if let Some(first) = self.line.first() {
                self.take_place(*first as usize);
            }
        }
        self.remove(c);
        self.holder = Some(match is_late {
            true => Holder::Orphan(me),
            false => Holder::Ours(me),
        });
        (self.silent, self.by_java, self.polls) = (false, false, 0);
    }

    pub fn publish_shared(&mut self) {
        for client in &mut self.clients {
            let is_subscribed = client.subscription == Subscription::On;
            client.woken |= client.listens_to_java && is_subscribed;
        }
    }

    pub fn release(&mut self, bounds: &Bounds) {
        self.holder = None;
        self.publish_shared();
        self.call_next(bounds);
    }

    pub fn run_leave_if_called(&mut self, c: usize, bounds: &Bounds) {
        self.clients[c].leaves_if_called = false;
        let is_called = self.is_first(c) && self.mark.is_some();
        let is_free = self.holder.is_none() || !bounds.has(Planted::LeavesOnlyIfFree);
        if is_called && is_free || bounds.has(Planted::OnlyIfCalledIgnored) {
            self.leave(c, bounds);
        }
    }

    pub fn run_late(&mut self, c: usize, late: Late, bounds: &Bounds) {
        self.clients[c].late.retain(|other| *other != late);
        self.polls = 0;
        match late {
            Late::Acquire { waits } => {
                let reply = self.acquire(c, waits, true, bounds);
                let client = &mut self.clients[c];
                client.lost_place |= client.waits() && (!waits || reply == Reply::Granted);
            }
            Late::Leave => {
                let client = &mut self.clients[c];
                client.lost_place |= client.waits();
                self.leave(c, bounds);
            }
        }
    }
}
