//! The server: the scripts of the line.

use super::machine::{Bounds, Planted};
use super::promises::{KEPT, ONCE, ORDER, OVERTAKEN};
use super::state::{Late, Mark, Owner, Place, Reply, Role, State, Subscription, Wish};

/// More are called together than there are clients.
const LAST_ROUND: u8 = 2;

impl State {
    fn is_first(&self, c: usize) -> bool {
        self.place_of(c) == Some(0)
    }

    fn remove_place(&mut self, c: usize) {
        self.line.retain(|place| place.client as usize != c);
        self.clients[c].is_unsure = false;
    }

    /// One of those that were called has answered.
    fn remove_mark(&mut self) {
        self.mark = None;
        self.line.iter_mut().for_each(|place| place.owes = false);
    }

    /// The client leaves the line. True if it had the first place, or was called.
    fn remove(&mut self, c: usize) -> bool {
        let is_first = self.is_first(c) || self.is_called(c);
        if is_first {
            self.remove_mark();
        }
        self.remove_place(c);
        is_first
    }

    /// A script of another client removes a place.
    fn take_place(&mut self, place: Place) {
        let c = place.client as usize;
        let client = &mut self.clients[c];
        if client.waits() {
            let listens = client.subscription == Subscription::On;
            if client.responds() && listens && !place.owes {
                self.broken = Some(KEPT);
            }
            client.lost_place = listens;
        }
        self.remove_place(c);
    }

    /// Calls the first clients that listen, and removes the others before them. If those that were
    /// called are late, removes them, and calls twice as many. If only readers are to be called, it
    /// stops at a writer. True if a client is called.
    fn call_next(&mut self, only_reader: bool, bounds: &Bounds) -> bool {
        let mut round = 0;
        if let Some(late) = self.mark.take_if(|mark| mark.is_over) {
            for place in self
                .line
                .iter()
                .take(1 << late.round)
                .copied()
                .collect::<Vec<_>>()
            {
                self.take_place(place);
            }
            round = match bounds.has(Planted::OneByOne) {
                true => 0,
                false => (late.round + 1).min(LAST_ROUND),
            };
        }
        let most = 1 << self.mark.map_or(round, |mark| mark.round);
        let mut heard = 0;
        while heard < most {
            let Some(place) = self.line.get(heard).copied() else {
                break;
            };
            if only_reader && place.role == Role::Writer {
                break;
            }
            let client = &mut self.clients[place.client as usize];
            if !client.counted && !bounds.has(Planted::DeadKept) {
                self.take_place(place);
                continue;
            }
            match client.subscription {
                Subscription::On => client.call = true,
                _ => client.is_unsure |= !client.waits(),
            }
            heard += 1;
        }
        let is_new = self.mark.is_none();
        if heard > 0 && !bounds.has(Planted::NotMarked) {
            let is_over = false;
            self.mark.get_or_insert(Mark { round, is_over });
            for place in &mut self.line[..heard] {
                if is_new && place.owes {
                    self.broken = Some(ONCE);
                }
                place.owes = self.clients[place.client as usize].counted;
            }
        } else if heard == 0 && (!only_reader || bounds.has(Planted::MarkDropped)) {
            self.mark = None;
        }
        self.silent &= heard == 0;
        if bounds.has(Planted::DroppedAtCall) {
            self.line.drain(..heard);
        }
        heard > 0
    }

    /// A client leaves the line. The next one is called if it may be able to enter the lock, or if
    /// it has to learn that Java holds the lock. True if one is called.
    fn leave(&mut self, c: usize, knows_writer: bool, bounds: &Bounds) -> bool {
        let was_first = self.remove(c);
        let calls = match self.writer {
            None if self.is_free() => !bounds.has(Planted::LeavesSilently),
            None => !bounds.has(Planted::LeavesReadersSilently),
            Some(Owner::Java) => !bounds.has(Planted::LeavesJavaSilently),
            Some(_) => !knows_writer,
        };
        was_first && calls && self.call_next(false, bounds)
    }

    /// Executes a `line_leave`. It looks for the owner of a lock without readers only.
    pub fn line_leave(&mut self, c: usize, bounds: &Bounds) {
        let is_called = self.leave(c, bounds.readers() == 0, bounds);
        if is_called && self.clients[c].responds() {
            self.clients[c].follows = true;
        }
    }

    /// The lock is free. Whether it is reserved for other clients than this one.
    fn is_reserved(&mut self, c: usize, bounds: &Bounds) -> bool {
        if self.line.is_empty() || self.is_first(c) {
            return false;
        }
        if !self.is_pending() && !bounds.has(Planted::PassesFirst) {
            self.call_next(false, bounds);
        }
        self.is_pending() && !self.is_first(c) && !self.is_called(c)
    }

    /// Executes an acquire. The thread that sent a late copy does not await its reply any more.
    pub fn acquire(
        &mut self,
        c: usize,
        role: Role,
        wish: Wish,
        is_late: bool,
        bounds: &Bounds,
    ) -> Reply {
        self.clients[c].lost_place &= is_late;
        let mine = Owner::Ours(c as u8);
        let has_it = match role {
            Role::Reader => self.readers.contains(&mine),
            Role::Writer => self.writer == Some(mine),
        };
        if has_it && !is_late {
            return Reply::Granted;
        }
        let (mut pending, is_free) = (false, self.is_free());
        let is_open = match role {
            _ if is_free => {
                let has_place = wish != Wish::Try && !bounds.has(Planted::Barges);
                pending = has_place && self.is_reserved(c, bounds);
                !pending
            }
            Role::Reader if self.is_read() => {
                let can_join = self.can_join(c, wish, bounds);
                pending = !can_join && self.is_pending();
                can_join
            }
            _ => false,
        };
        if is_open {
            self.grant(c, role, wish, is_late, bounds);
            return Reply::Granted;
        }
        let mut listens = false;
        match wish {
            Wish::Wait => listens = self.wait(c, role, bounds),
            Wish::GiveUp => _ = self.leave(c, true, bounds),
            Wish::Try => {}
        }
        Reply::Refused { listens, pending }
    }

    /// Whether a reader may enter a lock that readers hold.
    fn can_join(&mut self, c: usize, wish: Wish, bounds: &Bounds) -> bool {
        let may_probe = self.place_of(c).is_some() || wish != Wish::Wait;
        let probes = self.mark.is_none() && may_probe && !bounds.has(Planted::NotProbed);
        if probes || self.mark.is_some_and(|mark| mark.is_over) {
            self.call_next(false, bounds);
        }
        let Some(first) = self.line.first() else {
            return true;
        };
        let is_reader = first.role == Role::Reader;
        match self.mark {
            _ if self.is_first(c) || self.is_called(c) => true,
            Some(_) => {
                let may_pass = wish == Wish::Try || bounds.has(Planted::PassesCalledReader);
                is_reader && may_pass
            }
            None => is_reader || bounds.has(Planted::PassesWriter),
        }
    }

    /// Looks after the line. The reply arrives at once.
    pub fn look(&mut self, c: usize, bounds: &Bounds) {
        let client = &mut self.clients[c];
        let (follows, waits) = (client.follows, client.waits());
        client.is_looking = false;
        let place = self.place_of(c).map(|at| self.line[at]);
        let is_reader = waits && place.is_some_and(|place| place.role == Role::Reader);
        let probes = is_reader && self.is_read() && !(follows && self.mark.is_none());
        let mut is_refused = self.line.is_empty();
        let mut pending = false;
        if !is_refused && (self.is_free() || probes) {
            is_refused = !self.is_pending() && !self.call_next(false, bounds);
            pending = self.is_pending();
        }
        let has_place = self.place_of(c).is_some();
        let client = &mut self.clients[c];
        let asks = waits && (is_refused || !has_place);
        client.woken |= asks && !bounds.has(Planted::LossNotSeen);
        client.follows = pending;
    }

    /// Enters the line, or answers a call. True if the client is to listen to Java.
    fn wait(&mut self, c: usize, role: Role, bounds: &Bounds) -> bool {
        let entered = self.place_of(c);
        let rank = entered.unwrap_or(self.line.len());
        if entered.is_none() {
            let client = c as u8;
            let owes = false;
            self.line.push(Place { client, role, owes });
        } else if !bounds.has(Planted::RoleKept) {
            self.line[rank].role = role;
        }
        self.line[rank].owes = false;
        if self.is_called(c) && !bounds.has(Planted::MarkKept) {
            self.remove_mark();
            if entered.is_none() {
                // It takes the place of one that could have been called, and those that were are
                // called again.
                (self.rounds, self.looks, self.silent) = (0, 0, true);
            }
        }
        // It names one reader, perhaps one of the library.
        self.is_of_java() && rank <= 1
    }

    fn grant(&mut self, c: usize, role: Role, wish: Wish, is_late: bool, bounds: &Bounds) {
        let before = self.place_of(c).unwrap_or(self.line.len());
        let is_called = self.is_called(c);
        let mut passed = self.line.iter().enumerate().take(before);
        let is_passed = passed.any(|(at, place)| {
            // Those that were called together may enter in any order.
            let is_beside = is_called && at < self.called();
            self.clients[place.client as usize].waits_and_responds() && !is_beside
        });
        if wish != Wish::Try && is_passed && self.is_free() {
            self.broken = Some(ORDER);
        }
        // Clients that Java has woken may enter in any order: the first that does calls the next.
        // Those that do not wait may enter before one that was called.
        let first = self.line.first();
        let is_reader = first.is_some_and(|place| place.role == Role::Reader);
        let may_pass = is_reader && (self.mark.is_none() || wish == Wish::Try) || is_called;
        if self.is_read() && self.has_writer_before(c) && !may_pass {
            self.broken = Some(OVERTAKEN);
        }
        if wish != Wish::Try {
            self.remove(c);
        }
        if self.is_free() {
            (self.silent, self.by_java) = (false, false);
        }
        let owner = match is_late {
            true => Owner::Orphan(c as u8),
            false => Owner::Ours(c as u8),
        };
        match role {
            Role::Writer => self.writer = Some(owner),
            Role::Reader if !self.readers.contains(&owner) => self.readers.push(owner),
            Role::Reader => {}
        }
        (self.rounds, self.looks) = (0, 0);
        if role == Role::Reader && !bounds.has(Planted::ChainBroken) {
            self.call_next(true, bounds);
        }
    }

    fn publish_shared(&mut self) {
        for client in &mut self.clients {
            let is_subscribed = client.subscription == Subscription::On;
            client.woken |= client.listens_to_java && is_subscribed;
        }
    }

    fn end_hold(&mut self, role: Role, owner: Owner) {
        match role {
            Role::Writer => self.writer = None,
            Role::Reader => self.readers.retain(|reader| *reader != owner),
        }
    }

    /// A client ends the hold of an owner.
    pub fn release(&mut self, c: usize, role: Role, owner: Owner, bounds: &Bounds) {
        self.end_hold(role, owner);
        if self.is_free() || role == Role::Writer {
            self.publish_shared();
        }
        let only_reader = if self.is_free() {
            (self.rounds, self.looks) = (0, 0);
            Some(false)
        } else if role == Role::Writer && !bounds.has(Planted::DowngradesSilently) {
            Some(true)
        } else if self.is_of_java() && !bounds.has(Planted::LeavesJavaReaders) {
            Some(false)
        } else {
            None
        };
        let is_called = only_reader.is_some_and(|only_reader| self.call_next(only_reader, bounds));
        self.clients[c].follows |= is_called;
        self.is_unfollowed = !is_called;
    }

    /// A client deletes the lock.
    pub fn break_lock(&mut self, c: usize, bounds: &Bounds) {
        for owner in self.readers.drain(..).chain(self.writer.take()) {
            if let Owner::Ours(c) = owner {
                self.clients[c as usize].lose_hold();
            }
        }
        self.publish_shared();
        if self.call_next(false, bounds) {
            self.clients[c].follows = true;
        }
    }

    pub fn java_releases(&mut self, role: Role) {
        self.end_hold(role, Owner::Java);
        if !self.is_free() {
            return;
        }
        (self.by_java, self.is_unfollowed) = (true, true);
        (self.rounds, self.looks) = (0, 0);
        self.publish_shared();
        // The first place may be of a late copy.
        let first = self.first();
        self.silent |= first.is_some_and(|first| !first.waits_and_responds());
    }

    /// The lease ends of an owner that does not renew it.
    pub fn end_lease(&mut self, role: Role, owner: Owner) {
        self.end_hold(role, owner);
        match owner {
            Owner::Java => self.faults -= 1,
            Owner::Ours(c) => {
                let is_left = self.writer == Some(owner) || self.readers.contains(&owner);
                if !is_left {
                    self.clients[c as usize].lose_hold();
                }
            }
            Owner::Orphan(_) => {}
        }
        (self.silent, self.is_unfollowed) = (true, true);
        if self.is_free() {
            (self.rounds, self.looks) = (0, 0);
        }
    }

    pub fn run_leave_if_called(&mut self, c: usize, bounds: &Bounds) {
        self.clients[c].leaves_if_called = false;
        let is_called = self.is_called(c);
        let is_free = self.is_free() || !bounds.has(Planted::LeavesOnlyIfFree);
        if is_called && is_free || bounds.has(Planted::OnlyIfCalledIgnored) {
            self.line_leave(c, bounds);
        }
    }

    pub fn run_late(&mut self, c: usize, late: Late, bounds: &Bounds) {
        self.clients[c].late.retain(|other| *other != late);
        (self.rounds, self.looks, self.is_unfollowed) = (0, 0, true);
        match late {
            Late::Acquire { role, wish } => {
                let reply = self.acquire(c, role, wish, true, bounds);
                let client = &mut self.clients[c];
                let changes = wish != Wish::Wait || reply == Reply::Granted || role != client.role;
                client.lost_place |= client.waits() && changes;
            }
            Late::Leave => {
                let client = &mut self.clients[c];
                client.lost_place |= client.waits();
                self.line_leave(c, bounds);
            }
        }
    }
}
