//! What clients do, and the faults.

use super::machine::{Bounds, Planted};
use super::state::{Client, Holder, Late, Phase, Reply, State, Subscription};

impl State {
    pub fn wake(&mut self, c: usize) {
        let client = &mut self.clients[c];
        client.phase = Phase::Sleeps;
        client.woken = true;
    }

    /// The server executes a request of a thread, at once or late.
    pub fn ask(&mut self, c: usize, waits: bool, is_late: bool, bounds: &Bounds) {
        let client = &mut self.clients[c];
        client.woken = false;
        client.is_unsure &= !waits;
        let reply = match is_late {
            true => self.push_late(c, Late::Acquire { waits }),
            false => self.acquire(c, waits, false, bounds),
        };
        self.clients[c].phase = Phase::Asked { waits, reply };
    }

    /// The thread continues with the reply.
    pub fn receive(&mut self, c: usize, bounds: &Bounds) {
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
            Reply::Granted if self.holder == Some(Holder::Ours(c as u8)) => {
                client.phase = Phase::Holds;
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
            Reply::Refused(_) if !waits => {
                client.leaves_if_called |= leaves_if_called;
            }
            Reply::Refused(listens) => {
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
            self.leave(c, bounds);
        }
    }

    /// The thread does not use what a request without a reply has acquired.
    fn orphan(&mut self, c: usize) {
        if self.holder == Some(Holder::Ours(c as u8)) {
            self.holder = Some(Holder::Orphan(c as u8));
        }
    }

    pub fn go_on(&mut self, c: usize) {
        self.clients[c].stopped = false;
        self.polls = 0;
    }

    pub fn unlock(&mut self, c: usize, bounds: &Bounds) {
        self.clients[c].phase = Phase::Idle;
        self.release(bounds);
    }

    pub fn java_takes(&mut self) {
        self.holder = Some(Holder::Java);
        self.polls = 0;
    }

    pub fn java_releases(&mut self) {
        (self.holder, self.by_java) = (None, true);
        self.publish_shared();
        // The first place may be of a late copy.
        let listens = |first: &Client| first.responds() && first.waits();
        self.silent |= self.first().is_some_and(|first| !listens(first));
    }

    pub fn end_lease(&mut self) {
        if let Some(Holder::Ours(c)) = self.holder {
            let client = &mut self.clients[c as usize];
            if client.phase == Phase::Holds {
                client.phase = Phase::Idle;
            }
        }
        if self.holder == Some(Holder::Java) {
            self.faults -= 1;
        }
        (self.holder, self.silent) = (None, true);
    }

    pub fn time(&mut self, bounds: &Bounds) {
        if self.is_free_and_waited_for() {
            self.polls += 1;
        }
        if !bounds.has(Planted::ReservedWithoutEnd) {
            self.mark = self.mark.map(|_| true);
        }
        // The first place asks after a longer time. So do clients without a place.
        let mut ranked: Vec<_> = self.line.iter().skip(1).map(|c| *c as usize).collect();
        ranked.retain(|c| self.clients[*c].waits() && self.clients[*c].responds());
        for (c, client) in self.clients.iter_mut().enumerate() {
            let is_due = self.silent || ranked.is_empty() || ranked.contains(&c);
            client.woken |= is_due && client.responds();
        }
    }

    fn push_late(&mut self, c: usize, copy: Late) -> Reply {
        let late = &mut self.clients[c].late;
        if !late.contains(&copy) {
            late.push(copy);
        }
        Reply::Lost
    }

    /// A process dies. If its host has vanished, the server still counts its connection.
    pub fn kill(&mut self, c: usize, is_counted: bool) {
        let client = &mut self.clients[c];
        *client = Client {
            phase: Phase::Gone,
            counted: is_counted && client.counted,
            late: std::mem::take(&mut client.late),
            leaves_if_called: client.leaves_if_called,
            owes: client.owes,
            ..Client::new()
        };
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
            let client = &mut self.clients[place as usize];
            client.lost_place = client.waits();
            client.owes = false;
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
