//! The scripts.

use super::state::{Phase, Place, State, Subscription};
use super::{Bounds, Planted};

pub const ORDER: &str = "a waiting client does not pass another one that was before it";

impl State {
    fn place_of(&self, c: usize) -> Option<usize> {
        self.line.iter().position(|place| place.client == c)
    }

    fn first_called(&self) -> Option<usize> {
        let called = self.line.iter().find(|place| place.is_called);
        called.map(|place| place.client)
    }

    /// Publishes a call. False if no client receives it.
    fn publish(&mut self, c: usize) -> bool {
        let client = &mut self.clients[c];
        client.call |= client.phase != Phase::Dead;
        client.phase != Phase::Dead
    }

    fn remove_place(&mut self, c: usize, bounds: &Bounds) {
        if self.first_called() == Some(c) {
            self.is_late = false;
        }
        self.line.retain(|place| place.client != c);
        if self.listener != Some(c) || bounds.has(Planted::DutyKept) {
            return;
        }
        self.listener = None;
        while let Some(&last) = self.line.iter().rfind(|place| !place.is_called) {
            if self.publish(last.client) {
                self.listener = Some(last.client);
                return;
            }
            self.line.retain(|place| *place != last);
        }
    }

    /// Calls clients before this one. Returns how many permits are left if all are called.
    fn call_before(&mut self, c: Option<usize>, bounds: &Bounds) -> Option<i8> {
        let first = self.first_called();
        if let Some(first) = first.filter(|first| Some(*first) != c)
            && self.is_late
            && !bounds.has(Planted::LateKept)
        {
            self.remove_place(first, bounds);
        }
        let called = self.line.iter().filter(|place| place.is_called);
        let reserved: i8 = called.map(|place| self.clients[place.client].needs).sum();
        let mut left = self.free;
        if !bounds.has(Planted::NotReserved) {
            left -= reserved;
        }
        let mut skipped = 0;
        loop {
            let mut waiting = self.line.iter().filter(|place| !place.is_called);
            let Some(&next) = waiting.nth(skipped) else {
                return Some(left);
            };
            if Some(next.client) == c {
                return Some(left);
            }
            let needs = self.clients[next.client].needs;
            if left < needs {
                if !bounds.has(Planted::PassesMany) {
                    return None;
                }
                skipped += 1;
            } else if self.publish(next.client) {
                let at = self.place_of(next.client).expect("it has a place");
                self.line[at].is_called = true;
                left -= needs;
            } else {
                self.remove_place(next.client, bounds);
            }
        }
    }

    /// Executes a request for the permits. The reply to one that waits is under way.
    pub fn request(&mut self, c: usize, waits: bool, bounds: &Bounds) {
        let is_granted = self.ask(c, waits, bounds);
        let listens = self.listener == Some(c);
        self.is_silent &= !waits;
        let client = &mut self.clients[c];
        client.has_missed = false;
        client.phase = match (waits, is_granted) {
            (true, _) => Phase::Asked {
                is_granted,
                listens,
            },
            (false, true) => Phase::Holds,
            (false, false) => Phase::Idle,
        };
        if !waits {
            client.subscription = Subscription::Off;
        }
        if is_granted {
            self.polls = 0;
        }
    }

    /// True if the request gets the permits.
    fn ask(&mut self, c: usize, waits: bool, bounds: &Bounds) -> bool {
        let needs = self.clients[c].needs;
        let at = self.place_of(c);
        let is_called = at.is_some_and(|at| self.line[at].is_called);
        let may_take = self.free >= needs
            && (!waits
                || is_called
                || bounds.has(Planted::Barges)
                || self
                    .call_before(Some(c), bounds)
                    .is_some_and(|left| left >= needs));
        if may_take {
            self.free -= needs;
            if waits {
                self.check_order(c);
            }
        }
        if waits && !may_take {
            self.stay(c, bounds);
        } else {
            self.leave(c, bounds);
        }
        may_take
    }

    /// No client before this one waits for a call, and those that were called have their permits.
    fn check_order(&mut self, c: usize) {
        let at = self.place_of(c).unwrap_or(self.line.len());
        let waits = |place: &&Place| self.clients[place.client].waits();
        let mut before = self.line[..at].iter().filter(waits);
        let is_passed = before.any(|place| !place.is_called);
        let others = self
            .line
            .iter()
            .filter(|place| place.is_called && place.client != c);
        let reserved: i8 = others.map(|place| self.clients[place.client].needs).sum();
        // Java does not know what is reserved.
        if is_passed || self.free < reserved && self.java == 0 {
            self.broken = Some(ORDER);
        }
    }

    fn stay(&mut self, c: usize, bounds: &Bounds) {
        let at = self.place_of(c);
        if let (Some(_), Some(listener)) = (at, self.listener)
            && self.clients[listener].phase == Phase::Dead
        {
            self.listener = None;
            self.remove_place(listener, bounds);
        }
        match self.place_of(c) {
            Some(at) => {
                if self.first_called() == Some(c) {
                    self.is_late = false;
                }
                self.line[at].is_called &= bounds.has(Planted::CalledKept);
            }
            None => self.line.push(Place {
                client: c,
                is_called: false,
            }),
        }
        self.listener.get_or_insert(c);
        self.call_before(Some(c), bounds);
    }

    /// Executes what a called client sends for which no thread waits.
    pub fn leave_if_called(&mut self, c: usize, bounds: &Bounds) {
        self.clients[c].leaves = false;
        let is_called = self.place_of(c).is_some_and(|at| self.line[at].is_called);
        if is_called || self.listener == Some(c) {
            self.leave(c, bounds);
        }
    }

    fn leave(&mut self, c: usize, bounds: &Bounds) {
        self.remove_place(c, bounds);
        if self.free > 0 && !bounds.has(Planted::NoChain) {
            self.call_before(None, bounds);
        }
    }

    pub fn release(&mut self, permits: i8, bounds: &Bounds) {
        self.free += permits;
        self.polls = 0;
        self.call_before(None, bounds);
    }

    pub fn release_by_java(&mut self) {
        (self.free, self.java, self.polls) = (self.free + 1, self.java - 1, 0);
        let mut is_heard = false;
        for client in &mut self.clients {
            if client.subscription == Subscription::On && client.phase != Phase::Dead {
                client.java = true;
                is_heard |= client.responds();
            }
        }
        let is_coming = self
            .clients
            .iter()
            .any(|client| client.subscription == Subscription::Sent);
        self.is_silent |= !is_heard && !is_coming;
    }
}
