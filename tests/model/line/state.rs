//! The lock with its line, the clients, and what is under way.

use super::machine::Bounds;

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
    /// A message, a timer or a confirmation has woken the thread since its last request.
    pub woken: bool,
    pub stopped: bool,
    /// The subscription to the channel of its place, as the client knows it.
    pub subscription: Subscription,
    /// The server counts it as a receiver on that channel.
    pub counted: bool,
    /// It listens on the channel of Redisson, too, once it is subscribed.
    pub listens_to_java: bool,
    /// A message is under way. Several have the effect of one.
    pub call: bool,
    pub late: Vec<Late>,
    /// The background sends a `line_leave` because a call found no waiting thread.
    pub leaves_if_called: bool,
    /// It was called with a mark and has not answered. Only the promises read this.
    pub owes: bool,
    /// A fault removed its place while it waited. Only the promises read this.
    pub lost_place: bool,
    /// Its last wait ended without a reply, or a call was lost while no thread waited. Only the
    /// promises read this.
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
    /// The lock became free, and no script and no message told a client that responds. Only the
    /// promises read this and the following fields.
    pub silent: bool,
    /// The lock became free by a release of Java.
    pub by_java: bool,
    /// Periods that passed while the lock was free and a client waited.
    pub polls: u8,
    pub broken: Option<&'static str>,
}

impl Client {
    pub fn new() -> Self {
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

    pub fn first(&self) -> Option<&Client> {
        let first = self.line.first()?;
        self.clients.get(*first as usize)
    }

    pub fn is_free_and_waited_for(&self) -> bool {
        let mut clients = self.clients.iter();
        self.holder.is_none() && clients.any(|client| client.waits() && client.responds())
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
        let key = |c: &usize| (place(c).unwrap_or(usize::MAX), holds(c), &self.clients[*c]);
        order.sort_by_key(key);
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
