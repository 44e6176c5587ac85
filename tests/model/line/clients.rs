//! What clients do, and the faults.

use super::machine::{Bounds, Planted};
use super::promises::{FOLLOWED, KEPT};
use super::state::{Client, Late, Owner, Phase, Reply, Role, State, Subscription};

/// The largest number of rounds and of looks that is counted.
const MOST: u8 = 8;

impl State {
    pub fn begin(&mut self, c: usize, role: Role) {
        self.clients[c].role = role;
        self.wake(c);
    }

    pub fn wake(&mut self, c: usize) {
        let client = &mut self.clients[c];
        client.phase = Phase::Sleeps;
        client.woken = true;
    }

    /// The server executes a request of a thread, at once or late.
    pub fn ask(&mut self, c: usize, waits: bool, is_late: bool, bounds: &Bounds) {
        let client = &mut self.clients[c];
        let (role, wish) = (client.role, client.wish(waits));
        client.woken = false;
        client.is_unsure &= !waits;
        let reply = match is_late {
            true => self.push_late(c, Late::Acquire { role, wish }),
            false => self.acquire(c, role, wish, false, bounds),
        };
        self.clients[c].phase = Phase::Asked { waits, reply };
    }

    fn has_it(&self, c: usize) -> bool {
        let mine = Owner::Ours(c as u8);
        self.writer == Some(mine) || self.readers.contains(&mine)
    }

    /// The thread continues with the reply.
    pub fn receive(&mut self, c: usize, bounds: &Bounds) {
        let has_it = self.has_it(c);
        let client = &mut self.clients[c];
        let Phase::Asked { waits, reply } = client.phase else {
            return;
        };
        if bounds.has(Planted::MessageForgotten) {
            client.woken = false;
        }
        client.phase = if waits { Phase::Sleeps } else { Phase::Idle };
        let is_ignored = bounds.has(Planted::LastCallIgnored);
        let leaves_if_called = !waits && client.woken && !is_ignored;
        match reply {
            Reply::Granted if has_it => {
                client.phase = Phase::Holds;
                client.follows &= !waits;
                // A call that arrived meanwhile is for the place of a late copy.
                client.is_unsure |= client.woken;
            }
            // No reply arrived, or the lease has ended meanwhile.
            Reply::Granted | Reply::Lost => {
                client.woken = waits;
                if !waits {
                    client.leaves_if_called |= leaves_if_called;
                    client.is_unsure = true;
                    self.orphan(c);
                }
            }
            Reply::Refused { .. } if !waits => client.leaves_if_called |= leaves_if_called,
            Reply::Refused { listens, pending } => {
                // A reply that is older than a call of this client forgets that call.
                self.is_unfollowed |= client.follows && !pending;
                client.follows = pending;
                let is_first = client.subscription == Subscription::Off;
                if is_first {
                    client.subscription = Subscription::Sent;
                }
                if is_first || !bounds.has(Planted::RankStale) {
                    let is_new = listens && !client.listens_to_java;
                    client.listens_to_java = listens;
                    client.woken |= is_new && !bounds.has(Planted::NotAskedAfterConfirmation);
                }
            }
        }
    }

    pub fn subscribe(&mut self, c: usize, bounds: &Bounds) {
        let client = &mut self.clients[c];
        (client.subscription, client.counted) = (Subscription::On, true);
        client.woken |= !bounds.has(Planted::NotAskedAfterConfirmation);
    }

    pub fn deliver(&mut self, c: usize, bounds: &Bounds) {
        let client = &mut self.clients[c];
        client.call = false;
        match client.phase {
            Phase::Sleeps | Phase::Asked { .. } => client.woken = true,
            _ => client.leaves_if_called = !bounds.has(Planted::CallIgnored),
        }
    }

    pub fn interrupt(&mut self, c: usize, is_late: bool, bounds: &Bounds) {
        self.clients[c].phase = Phase::Idle;
        self.orphan(c);
        if is_late {
            self.push_late(c, Late::Leave);
            self.clients[c].is_unsure = true;
        } else {
            self.line_leave(c, bounds);
        }
    }

    /// The thread gives up, and another thread of the client waits. It has the place from now on, and
    /// may want another role.
    pub fn inherit(&mut self, c: usize, role: Role, bounds: &Bounds) {
        if bounds.has(Planted::HeirForgotten) && self.place_of(c).is_some() {
            self.line_leave(c, bounds);
            self.broken = Some(KEPT);
        }
        let client = &mut self.clients[c];
        client.role = role;
        client.woken = !bounds.has(Planted::HeirSilent);
    }

    /// The thread does not use what a request without a reply has acquired.
    fn orphan(&mut self, c: usize) {
        let (mine, orphan) = (Owner::Ours(c as u8), Owner::Orphan(c as u8));
        for owner in self.readers.iter_mut().chain(&mut self.writer) {
            if *owner == mine {
                *owner = orphan;
            }
        }
        self.readers.sort_unstable();
        self.readers.dedup();
    }

    pub fn go_on(&mut self, c: usize) {
        self.clients[c].stopped = false;
        (self.rounds, self.looks) = (0, 0);
    }

    pub fn unlock(&mut self, c: usize, role: Role, bounds: &Bounds) {
        self.release(c, role, Owner::Ours(c as u8), bounds);
        if !self.has_it(c) {
            self.clients[c].phase = Phase::Idle;
        }
    }

    pub fn java_takes(&mut self, role: Role) {
        (self.rounds, self.looks) = (0, 0);
        match role {
            Role::Writer => self.writer = Some(Owner::Java),
            Role::Reader => self.readers.push(Owner::Java),
        }
    }

    /// The time of a call is over, or the time between two looks of a client that waits.
    pub fn time(&mut self, bounds: &Bounds) {
        let ends_call = self.has_call_to_end(bounds);
        if self.is_waited_for() {
            // More than any promise allows. Without a bound there would be as many states.
            self.rounds = MOST.min(self.rounds + u8::from(self.is_pending()));
            self.looks = MOST.min(self.looks + u8::from(!ends_call));
            let is_due = |c| self.is_due(c) && !self.clients[c].lost_place;
            let mut clients = 0..self.clients.len();
            let is_excused = ends_call || self.is_unfollowed || !self.is_free();
            if !is_excused && clients.any(is_due) {
                self.broken = Some(FOLLOWED);
            }
        }
        if let Some(mark) = &mut self.mark
            && !bounds.has(Planted::ReservedWithoutEnd)
        {
            mark.is_over = true;
        }
        let looks = |client: &Client| match ends_call {
            true => client.follows && !bounds.has(Planted::NotFollowed),
            false => client.waits() && !bounds.has(Planted::NotLooked),
        };
        for client in &mut self.clients {
            client.is_looking = client.responds() && looks(client);
        }
    }

    /// The time of a call ends before clients look only because they wait.
    pub fn has_call_to_end(&self, bounds: &Bounds) -> bool {
        let is_followed = !bounds.has(Planted::NotFollowed);
        let looks = |client: &Client| client.responds() && client.follows && is_followed;
        self.is_pending() || self.clients.iter().any(looks)
    }

    fn push_late(&mut self, c: usize, copy: Late) -> Reply {
        let late = &mut self.clients[c].late;
        if !late.contains(&copy) {
            late.push(copy);
        }
        Reply::Lost
    }

    pub fn lose_reply(&mut self, c: usize) {
        if let Phase::Asked { reply, .. } = &mut self.clients[c].phase {
            *reply = Reply::Lost;
        }
    }

    pub fn unsubscribe(&mut self, c: usize) {
        let client = &mut self.clients[c];
        (client.subscription, client.counted) = (Subscription::Off, false);
    }

    pub fn break_connection(&mut self, c: usize, counted: bool) {
        let client = &mut self.clients[c];
        client.counted &= counted;
        client.subscription = Subscription::Sent;
        client.is_unsure |= client.call && !client.waits();
        (client.call, client.woken) = (false, true);
    }

    pub fn delete_line(&mut self) {
        for place in std::mem::take(&mut self.line) {
            let client = &mut self.clients[place.client as usize];
            client.lost_place = client.waits();
        }
        self.mark = None;
    }

    pub fn move_slot(&mut self, lost: bool) {
        if lost {
            self.delete_line();
        }
        for c in 0..self.clients.len() {
            let client = &self.clients[c];
            if client.phase != Phase::Gone && client.subscription != Subscription::Off {
                self.break_connection(c, false);
            } else {
                self.clients[c].counted = false;
            }
        }
    }
}
