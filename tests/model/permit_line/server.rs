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
            (self.is_late, self.round) = (false, 0);
        }
        self.remove_places(&[c], bounds);
    }

    /// Does not change the mark. If one of these clients listened, the last one does from now on.
    fn remove_places(&mut self, gone: &[usize], bounds: &Bounds) {
        let is_gone = |c: usize| gone.contains(&c);
        self.line.retain(|place| !is_gone(place.client));
        if self.listener.is_some_and(is_gone) && !bounds.has(Planted::DutyKept) {
            self.listener = None;
            while let Some(&last) = self.line.iter().rfind(|place| !place.is_called) {
                if self.publish(last.client) {
                    self.listener = Some(last.client);
                    break;
                }
                self.line.retain(|place| *place != last);
            }
        }
        let mut places = self.line.iter();
        self.is_probed &= places.any(|place| self.clients[place.client].needs > 1);
    }

    fn called(&self) -> impl Iterator<Item = usize> {
        let called = self.line.iter().filter(|place| place.is_called);
        called.map(|place| place.client)
    }

    /// If those that were called are late, removes the first of them. Returns how many clients are
    /// called however many permits are free.
    fn begin_round(&mut self, bounds: &Bounds) -> usize {
        if !self.is_late || bounds.has(Planted::LateKept) {
            return 0;
        }
        let silent: Vec<_> = self.called().take(1 << self.round).collect();
        self.remove_places(&silent, bounds);
        (self.is_late, self.round) = (false, (self.round + 1).min(5));
        match bounds.has(Planted::OneByOne) {
            true => 1,
            false => 1 << self.round,
        }
    }

    fn is_passed(&self, bounds: &Bounds) -> bool {
        let is_passing = self.is_passing && !bounds.has(Planted::NeverPassed);
        is_passing || bounds.has(Planted::PassesMany)
    }

    /// Calls clients before this one, and those behind it if it was refused and lets them pass.
    /// Returns how many permits are left if all are called.
    pub fn call_before(
        &mut self,
        c: Option<usize>,
        is_refused: bool,
        bounds: &Bounds,
    ) -> Option<i8> {
        if self.free <= 0 {
            return None;
        }
        let mut together = self.begin_round(bounds);
        let reserved: i8 = self.called().map(|c| self.clients[c].needs).sum();
        let mut left = self.free;
        if !bounds.has(Planted::NotReserved) {
            left -= reserved;
        }
        let mut skipped = 0;
        while left > 0 || together > 0 {
            let mut waiting = self.line.iter().filter(|place| !place.is_called);
            let Some(&Place { client: next, .. }) = waiting.nth(skipped) else {
                return Some(left);
            };
            let needs = self.clients[next].needs;
            let fits = together > 0 || left >= needs;
            let is_own = Some(next) == c;
            if is_own && (fits || !is_refused) {
                return Some(if together > 0 { self.free } else { left });
            } else if !fits && self.is_passed(bounds) {
                skipped += 1;
                continue;
            }
            let called = self.called().count();
            let is_kept_out = self.is_probed
                || called > 0 && !bounds.has(Planted::ProbedBesideCalled)
                || bounds.has(Planted::NotProbed);
            if !fits && (is_own || is_kept_out) {
                return None;
            } else if self.publish(next) {
                while together == 0 && self.round > 0 && 1 << self.round > called {
                    self.round -= 1;
                }
                let at = self.place_of(next).expect("it has a place");
                self.line[at].is_called = true;
                self.line[at].is_extra = together > 0 || skipped > 0;
                self.is_probed |= !fits || needs > self.free;
                left -= needs;
                together = together.saturating_sub(1);
            } else {
                self.remove_place(next, bounds);
            }
        }
        None
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
            (self.polls, self.rounds) = (0, 0);
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
                    .call_before(Some(c), false, bounds)
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
        let free = self.free + self.clients[c].needs;
        let waits = |place: &&Place| {
            let client = &self.clients[place.client];
            client.waits() && !(self.is_passing && client.needs > free)
        };
        let mut before = self.line[..at].iter().filter(waits);
        let is_passed = before.any(|place| !place.is_called);
        // Those that were called together are in no order, and a client that was passed may not
        // let others pass any more.
        let is_extra = self.line.get(at).is_some_and(|place| place.is_extra);
        let others = self
            .line
            .iter()
            .filter(|place| place.is_called && !place.is_extra && place.client != c);
        let reserved: i8 = others.map(|place| self.clients[place.client].needs).sum();
        // Java does not know what is reserved.
        if !is_extra && (is_passed || self.free < reserved && self.java == 0) {
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
                    (self.is_late, self.round) = (false, 0);
                }
                self.line[at].is_called &= bounds.has(Planted::CalledKept);
                self.line[at].is_extra &= self.line[at].is_called;
            }
            None => {
                self.rounds = 0;
                self.line.push(Place {
                    client: c,
                    is_called: false,
                    is_extra: false,
                });
            }
        }
        self.listener.get_or_insert(c);
        self.call_before(Some(c), true, bounds);
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
        if !bounds.has(Planted::NoChain) {
            self.call_before(None, false, bounds);
        }
    }

    pub fn release(&mut self, permits: i8, bounds: &Bounds) {
        self.free += permits;
        (self.polls, self.rounds) = (0, 0);
        self.call_before(None, false, bounds);
    }

    pub fn release_by_java(&mut self) {
        (self.free, self.java) = (self.free + 1, self.java - 1);
        (self.polls, self.rounds) = (0, 0);
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
