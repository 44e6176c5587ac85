//! The server with the lock and its line, the clients, and what is under way.

use super::machine::{Bounds, Planted};
use super::promises::{KEPT, ONCE, ORDER};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    Ours(u8),
    /// A copy of the client acquired the lock, and no thread of it uses the lock.
    Orphan(u8),
    Java,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    Granted,
    /// True if the client is to listen to Java.
    Refused(bool),
    /// None arrives in time.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    Idle,
    /// The thread waits, and has no request under way.
    Sleeps,
    /// The server has executed a request, or it is late.
    Asked {
        waits: bool,
        reply: Reply,
    },
    Holds,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subscription {
    Off,
    Sent,
    On,
}

/// A copy whose reply nothing awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Late {
    Acquire { waits: bool },
    Leave,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    pub phase: Phase,
    /// A message, a timer or a confirmation woke the thread since it sent its last request.
    pub woken: bool,
    pub stopped: bool,
    /// The subscription to the channel of its place, as the client knows it.
    pub subscription: Subscription,
    /// The server counts it as a receiver on that channel.
    pub counted: bool,
    /// It listens on the channel of Redisson, too, once it is subscribed.
    pub listens_to_java: bool,
    /// Messages under way.
    pub call: bool,
    pub late: Vec<Late>,
    /// The background sends a `line_leave` because a call found no waiting thread.
    pub leaves_if_called: bool,
    /// It was called with a mark and has not answered. Only the promises read this.
    pub owes: bool,
    /// A fault removed its place while it waited. Only the promises read this.
    pub lost_place: bool,
    /// Its last wait ended without a reply, or a call was lost because no thread waits. Only the promises read this.
    pub is_unsure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub holder: Option<Holder>,
    /// The clients that have a place.
    pub line: Vec<u8>,
    /// The first place was called; true if that was longer ago than `RESERVED`.
    pub mark: Option<bool>,
    pub clients: Vec<Client>,
    pub faults: u8,
    /// The lock became free and no script of this library could tell a client. Only the promises
    /// read this and the following fields.
    pub silent: bool,
    /// Java made it free.
    pub by_java: bool,
    /// Periods that passed while the lock was free and a client waited.
    pub polls: u8,
    pub broken: Option<&'static str>,
}

impl Client {
    fn new() -> Self {
        Self {
            phase: Phase::Idle,
            woken: false,
            stopped: false,
            subscription: Subscription::Off,
            counted: false,
            listens_to_java: false,
            call: false,
            late: Vec::new(),
            leaves_if_called: false,
            owes: false,
            lost_place: false,
            is_unsure: false,
        }
    }

    pub fn responds(&self) -> bool {
        self.phase != Phase::Gone && !self.stopped
    }

    /// True if its thread waits for the lock.
    pub fn waits(&self) -> bool {
        matches!(self.phase, Phase::Sleeps | Phase::Asked { waits: true, .. })
    }
}

impl State {
    pub fn new(bounds: &Bounds) -> Self {
        Self {
            holder: None,
            line: Vec::new(),
            mark: None,
            clients: vec![Client::new(); bounds.clients],
            faults: bounds.faults,
            silent: false,
            by_java: false,
            polls: 0,
            broken: None,
        }
    }

    // The server.

    pub fn first(&self) -> Option<&Client> {
        let first = self.line.first()?;
        self.clients.get(*first as usize)
    }

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

    /// A client leaves the line. If it was the first, it passes its call on. If Java holds the lock,
    /// the next client asks, and learns that it has to listen to Java.
    fn leave(&mut self, c: usize, bounds: &Bounds) {
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

    /// Executes an acquire. A late copy is not of the call that runs.
    fn acquire(&mut self, c: usize, waits: bool, is_late: bool, bounds: &Bounds) -> Reply {
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

    fn publish_shared(&mut self) {
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

    // The clients.

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
        let first = self.line.first();
        self.silent |= first.is_some_and(|first| !self.clients[*first as usize].responds());
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

    pub fn is_free_and_waited_for(&self) -> bool {
        let mut clients = self.clients.iter();
        self.holder.is_none() && clients.any(|client| client.waits() && client.responds())
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

    // Faults.

    fn push_late(&mut self, c: usize, copy: Late) -> Reply {
        let late = &mut self.clients[c].late;
        if !late.contains(&copy) {
            late.push(copy);
        }
        Reply::Lost
    }

    /// A process dies. The server counts its connection still if its host has vanished.
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

    /// Removes what makes no difference any more, and sorts the clients, which are equivalent.
    pub fn normalize(&mut self) {
        if !self.is_free_and_waited_for() {
            self.polls = 0;
        }
        self.by_java &= self.holder.is_none() && !self.line.is_empty();
        self.silent &= !self.line.is_empty() || self.clients.iter().any(Client::waits);
        for (c, client) in (0..).zip(&mut self.clients) {
            client.late.sort_unstable();
            client.is_unsure &= self.line.contains(&c);
            client.owes &= self.line.contains(&c);
            if matches!(client.phase, Phase::Idle | Phase::Holds | Phase::Gone) {
                (client.woken, client.lost_place) = (false, false);
                client.listens_to_java = false;
            }
        }
        let place = |c: &usize| self.line.iter().position(|place| *place as usize == *c);
        let holds = |c: &usize| match self.holder {
            Some(Holder::Ours(holder) | Holder::Orphan(holder)) => holder as usize == *c,
            _ => false,
        };
        let mut order: Vec<_> = (0..self.clients.len()).collect();
        order.sort_by_key(|c| {
            (
                place(c).map_or(usize::MAX, |at| at),
                holds(c),
                &self.clients[*c],
            )
        });
        let new = |old: &mut u8| {
            let at = order.iter().position(|c| *c == *old as usize);
            *old = at.map_or(*old, |at| at as u8);
        };
        self.line.iter_mut().for_each(new);
        if let Some(Holder::Ours(c) | Holder::Orphan(c)) = &mut self.holder {
            new(c);
        }
        self.clients = order.iter().map(|c| self.clients[*c].clone()).collect();
    }
}
