//! The server: the scripts of the line.

use super::machine::{Bounds, Planted};
use super::promises::{KEPT, ONCE, ORDER, OVERTAKEN};
use super::state::{Late, Owner, Phase, Place, Reply, Role, State, Subscription};

impl State {
    fn is_first(&self, c: usize) -> bool {
        self.place_of(c) == Some(0)
    }

    fn remove(&mut self, c: usize) {
        if self.is_first(c) {
            self.mark = None;
        }
        self.line.retain(|place| place.client as usize != c);
        self.clients[c].is_unsure = false;
    }

    /// A script of another client, or a fault, removes the first place.
    fn take_first(&mut self) {
        let Some(first) = self.line.first().copied() else {
            return;
        };
        let c = first.client as usize;
        let client = &mut self.clients[c];
        if client.waits() {
            let listens = client.subscription == Subscription::On;
            if client.responds() && listens && !first.owes {
                self.broken = Some(KEPT);
            }
            client.lost_place = listens;
        }
        self.remove(c);
    }

    /// Calls the first client that listens, and removes those before it. If only readers are to be
    /// called, it stops at a writer.
    fn call_first(&mut self, only_reader: bool, bounds: &Bounds) {
        while let Some(first) = self.line.first().copied() {
            let c = first.client as usize;
            if only_reader && first.role == Role::Writer {
                return;
            }
            let is_dead = !self.clients[c].counted && !bounds.has(Planted::DeadKept);
            if self.mark == Some(true) || is_dead {
                self.take_first();
                continue;
            }
            let client = &mut self.clients[c];
            match client.subscription {
                Subscription::On => client.call = true,
                _ => client.is_unsure |= !client.waits(),
            }
            if self.mark.is_none() && !bounds.has(Planted::NotMarked) {
                self.mark = Some(false);
                if first.owes {
                    self.broken = Some(ONCE);
                }
                self.line[0].owes = self.clients[c].counted;
            }
            if bounds.has(Planted::DroppedAtCall) {
                self.line.remove(0);
            }
            return;
        }
    }

    /// A client leaves the line. The next one is called if it may be able to enter the lock, or if
    /// it has to learn that Java holds the lock.
    fn leave(&mut self, c: usize, knows_writer: bool, bounds: &Bounds) {
        let was_first = self.is_first(c);
        self.remove(c);
        let calls = match self.writer {
            None if self.is_free() => !bounds.has(Planted::LeavesSilently),
            None => !bounds.has(Planted::LeavesReadersSilently),
            Some(Owner::Java) => !bounds.has(Planted::LeavesJavaSilently),
            Some(_) => !knows_writer,
        };
        if was_first && calls {
            self.call_first(false, bounds);
        }
    }

    /// Executes a `line_leave`. It looks for the owner of a lock without readers only.
    pub fn line_leave(&mut self, c: usize, bounds: &Bounds) {
        self.leave(c, bounds.readers() == 0, bounds);
    }

    /// Executes an acquire. The thread that sent a late copy does not await its reply any more.
    pub fn acquire(
        &mut self,
        c: usize,
        role: Role,
        waits: bool,
        is_late: bool,
        bounds: &Bounds,
    ) -> Reply {
        self.clients[c].lost_place &= is_late;
        if self.is_first(c) {
            self.silent &= is_late;
            self.line[0].owes = false;
        }
        let mine = Owner::Ours(c as u8);
        let has_it = match role {
            Role::Reader => self.readers.contains(&mine),
            Role::Writer => self.writer == Some(mine),
        };
        if has_it && !is_late {
            return Reply::Granted;
        }
        let is_open = match role {
            _ if self.is_free() => {
                let is_reserved = self.mark == Some(false) && !self.is_first(c);
                !waits || !is_reserved || bounds.has(Planted::Barges)
            }
            Role::Reader if self.is_read() => self.can_join(c, waits, bounds),
            _ => false,
        };
        if is_open {
            self.grant(c, role, waits, is_late, bounds);
            return Reply::Granted;
        }
        if !waits {
            self.leave(c, true, bounds);
            return Reply::Refused(false);
        }
        Reply::Refused(self.wait(c, role, bounds))
    }

    /// Whether a reader may enter a lock that readers hold.
    fn can_join(&mut self, c: usize, waits: bool, bounds: &Bounds) -> bool {
        let mut may_probe = self.place_of(c).is_some() || !waits;
        may_probe &= !bounds.has(Planted::NotProbed);
        while let Some(first) = self.line.first().copied() {
            match (first.role, self.mark) {
                _ if first.client as usize == c => return true,
                (_, Some(true)) => self.take_first(),
                (Role::Reader, None) => return true,
                (Role::Reader, Some(false)) => {
                    return !waits || bounds.has(Planted::PassesCalledReader);
                }
                (Role::Writer, None) if bounds.has(Planted::PassesWriter) => return true,
                (Role::Writer, None) if may_probe => {
                    may_probe = false;
                    self.call_first(false, bounds);
                }
                (Role::Writer, _) => return false,
            }
        }
        true
    }

    /// Enters the line, or answers a call. True if the client is to listen to Java.
    fn wait(&mut self, c: usize, role: Role, bounds: &Bounds) -> bool {
        if self.place_of(c).is_none() {
            let client = c as u8;
            self.line.push(Place {
                client,
                role,
                owes: false,
            });
        }
        let Some(rank) = self.place_of(c) else {
            return false;
        };
        if !bounds.has(Planted::RoleKept) {
            self.line[rank].role = role;
        }
        if rank == 0 && !bounds.has(Planted::MarkKept) {
            self.mark = None;
        }
        // It names one reader, perhaps one of the library.
        self.is_of_java() && rank <= 1
    }

    fn grant(&mut self, c: usize, role: Role, waits: bool, is_late: bool, bounds: &Bounds) {
        let before = self.place_of(c).unwrap_or(self.line.len());
        let is_passed = self.line[..before].iter().any(|place| {
            let client = &self.clients[place.client as usize];
            client.waits_and_responds()
        });
        let is_announced = !self.silent && !self.by_java && self.mark != Some(true);
        if waits && is_passed && is_announced && self.is_free() {
            self.broken = Some(ORDER);
        }
        // Clients that Java has woken may enter in any order: the first that does calls the next.
        // Those that do not wait may enter before one that was called.
        let first = self.line.first();
        let is_reader = first.is_some_and(|place| place.role == Role::Reader);
        let may_pass = is_reader && (self.mark.is_none() || !waits);
        if self.is_read() && self.has_writer_before(c) && !may_pass {
            self.broken = Some(OVERTAKEN);
        }
        if waits && !self.is_first(c) && self.mark == Some(true) {
            if bounds.has(Planted::OldPlaceKept) {
                self.mark = None;
            } else {
                self.take_first();
            }
        }
        self.remove(c);
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
        self.polls = 0;
        if role == Role::Reader && !bounds.has(Planted::ChainBroken) {
            self.call_first(true, bounds);
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

    pub fn release(&mut self, role: Role, owner: Owner, bounds: &Bounds) {
        self.end_hold(role, owner);
        if self.is_free() || role == Role::Writer {
            self.publish_shared();
        }
        if self.is_free() {
            self.polls = 0;
            self.call_first(false, bounds);
        } else if role == Role::Writer && !bounds.has(Planted::DowngradesSilently) {
            self.call_first(true, bounds);
        } else if self.is_of_java() && !bounds.has(Planted::LeavesJavaReaders) {
            self.call_first(false, bounds);
        }
    }

    pub fn java_releases(&mut self, role: Role) {
        self.end_hold(role, Owner::Java);
        if !self.is_free() {
            return;
        }
        (self.by_java, self.polls) = (true, 0);
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
                let client = &mut self.clients[c as usize];
                let is_left = self.writer == Some(owner) || self.readers.contains(&owner);
                if client.phase == Phase::Holds && !is_left {
                    client.phase = Phase::Idle;
                }
            }
            Owner::Orphan(_) => {}
        }
        self.silent = true;
        if self.is_free() {
            self.polls = 0;
        }
    }

    pub fn run_leave_if_called(&mut self, c: usize, bounds: &Bounds) {
        self.clients[c].leaves_if_called = false;
        let is_called = self.is_first(c) && self.mark.is_some();
        let is_free = self.is_free() || !bounds.has(Planted::LeavesOnlyIfFree);
        if is_called && is_free || bounds.has(Planted::OnlyIfCalledIgnored) {
            self.line_leave(c, bounds);
        }
    }

    pub fn run_late(&mut self, c: usize, late: Late, bounds: &Bounds) {
        self.clients[c].late.retain(|other| *other != late);
        self.polls = 0;
        match late {
            Late::Acquire { role, waits } => {
                let reply = self.acquire(c, role, waits, true, bounds);
                let client = &mut self.clients[c];
                let changes = !waits || reply == Reply::Granted || role != client.role;
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
