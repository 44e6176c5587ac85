//! The lock with its line, the clients, and what is under way.

use super::machine::Bounds;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Reader,
    #[default]
    Writer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    Ours(u8),
    /// A copy of the client acquired the lock, and no thread of it uses the lock.
    Orphan(u8),
    Java,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    Granted,
    Refused {
        /// The client is to listen to Java.
        listens: bool,
        /// The lock is reserved for others.
        pending: bool,
    },
    /// None arrives in time.
    Lost,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    #[default]
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subscription {
    #[default]
    Off,
    Sent,
    On,
}

/// The first places were called: 2^round of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    pub round: u8,
    /// That was longer ago than `RESERVED`.
    pub is_over: bool,
}

/// What a request wants if it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wish {
    /// It has no place, and wants none.
    Try,
    Wait,
    /// It leaves the line.
    GiveUp,
}

/// A copy whose reply nothing awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Late {
    Acquire { role: Role, wish: Wish },
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub client: u8,
    pub role: Role,
    /// It was called with a mark, and none of those that were has answered. Only the promises read
    /// this.
    pub owes: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    pub phase: Phase,
    /// As what its thread may wait.
    pub roles: &'static [Role],
    /// As what its thread waits.
    pub role: Role,
    /// A message, a timer or a confirmation has woken the thread since its last request.
    pub woken: bool,
    /// A script of this client has called others, or its last reply said that others are called. So
    /// its watchdog looks at the line when the time of that call is over.
    pub follows: bool,
    /// A look is due.
    pub is_looking: bool,
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
    /// A fault removed its place while it waited, or changed its role there. Only the promises read
    /// this.
    pub lost_place: bool,
    /// Its last wait ended without a reply, or a call was lost while no thread waited. Only the
    /// promises read this.
    pub is_unsure: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub writer: Option<Owner>,
    /// Beside a writer, only its own reader is here.
    pub readers: Vec<Owner>,
    pub line: Vec<Place>,
    pub mark: Option<Mark>,
    pub clients: Vec<Client>,
    pub faults: u8,
    /// A lease ended, so no script and no message told the clients. Only the promises read this and
    /// the following fields.
    pub silent: bool,
    /// The lock became free by a release of Java.
    pub by_java: bool,
    /// No living client has to look after the last release.
    pub is_unfollowed: bool,
    /// How often the time of a call ended while a client that waited could have entered the lock.
    pub rounds: u8,
    /// How often the waiting clients had to look meanwhile, because none had to look after a call.
    pub looks: u8,
    pub broken: Option<&'static str>,
}

impl Client {
    fn new(roles: &'static [Role]) -> Self {
        Self {
            roles,
            role: roles[0],
            ..Self::default()
        }
    }

    /// What is left of a client whose process has ended.
    pub fn end(&mut self, is_counted: bool) {
        *self = Self {
            phase: Phase::Gone,
            counted: is_counted && self.counted,
            late: std::mem::take(&mut self.late),
            leaves_if_called: self.leaves_if_called,
            ..Self::new(self.roles)
        };
    }

    /// Its thread learns that it does not hold the lock any more.
    pub fn lose_hold(&mut self) {
        if self.phase == Phase::Holds {
            self.phase = Phase::Idle;
        }
    }

    pub fn responds(&self) -> bool {
        self.phase != Phase::Gone && !self.stopped
    }

    /// True if its thread waits for the lock.
    pub fn waits(&self) -> bool {
        matches!(self.phase, Phase::Sleeps | Phase::Asked { waits: true, .. })
    }

    pub fn wish(&self, waits: bool) -> Wish {
        match self.phase {
            Phase::Idle => Wish::Try,
            _ if waits => Wish::Wait,
            _ => Wish::GiveUp,
        }
    }

    pub fn waits_and_responds(&self) -> bool {
        self.waits() && self.responds()
    }
}

impl State {
    pub fn new(bounds: &Bounds) -> Self {
        let clients = bounds.clients.iter().map(|roles| Client::new(roles));
        Self {
            clients: clients.collect(),
            faults: bounds.faults,
            ..Self::default()
        }
    }

    pub fn is_free(&self) -> bool {
        self.writer.is_none() && self.readers.is_empty()
    }

    /// True if readers hold the lock, and no writer.
    pub fn is_read(&self) -> bool {
        self.writer.is_none() && !self.readers.is_empty()
    }

    /// True if all owners are clients of Redisson.
    pub fn is_of_java(&self) -> bool {
        let mut owners = self.readers.iter().chain(&self.writer);
        !self.is_free() && owners.all(|owner| *owner == Owner::Java)
    }

    pub fn has_java(&self) -> bool {
        let mut owners = self.readers.iter().chain(&self.writer);
        owners.any(|owner| *owner == Owner::Java)
    }

    pub fn place_of(&self, c: usize) -> Option<usize> {
        self.line
            .iter()
            .position(|place| place.client as usize == c)
    }

    /// How many places were called together.
    pub fn called(&self) -> usize {
        self.mark.map_or(0, |mark| 1 << mark.round)
    }

    pub fn is_called(&self, c: usize) -> bool {
        self.place_of(c).is_some_and(|at| at < self.called())
    }

    /// True if the first places were called, and still have time to answer.
    pub fn is_pending(&self) -> bool {
        self.mark.is_some_and(|mark| !mark.is_over)
    }

    pub fn first(&self) -> Option<&Client> {
        let first = self.line.first()?;
        self.clients.get(first.client as usize)
    }

    /// True if a writer that waits and responds is in the line before this client.
    pub fn has_writer_before(&self, c: usize) -> bool {
        let before = self.place_of(c).unwrap_or(self.line.len());
        self.line[..before].iter().any(|place| {
            let client = &self.clients[place.client as usize];
            client.role == Role::Writer && client.waits_and_responds()
        })
    }

    /// True if this client waits and can enter the lock.
    pub fn is_due(&self, c: usize) -> bool {
        let client = &self.clients[c];
        let joins = client.role == Role::Reader && self.is_read() && !self.has_writer_before(c);
        client.waits_and_responds() && (self.is_free() || joins)
    }

    pub fn is_waited_for(&self) -> bool {
        (0..self.clients.len()).any(|c| self.is_due(c))
    }

    /// Removes what makes no difference any more, and sorts the clients, which are equivalent.
    pub fn normalize(&mut self) {
        if !self.is_waited_for() {
            (self.rounds, self.looks) = (0, 0);
        }
        self.by_java &= self.is_free() && !self.line.is_empty();
        self.silent &= !self.line.is_empty() || self.clients.iter().any(Client::waits);
        // Otherwise a look finds nothing.
        let can_call = self.mark.is_some() || self.is_free() && !self.line.is_empty();
        for c in 0..self.clients.len() {
            let has_place = self.place_of(c).is_some();
            let client = &mut self.clients[c];
            client.late.sort_unstable();
            client.is_unsure &= has_place;
            client.follows &= can_call;
            if matches!(client.phase, Phase::Idle | Phase::Holds | Phase::Gone) {
                (client.woken, client.lost_place) = (false, false);
                client.listens_to_java = false;
                client.role = client.roles[0];
            }
        }
        let is_of = |owner: &Owner, c: usize| match owner {
            Owner::Ours(client) | Owner::Orphan(client) => *client as usize == c,
            Owner::Java => false,
        };
        let writes = |c: usize| self.writer.is_some_and(|owner| is_of(&owner, c));
        let reads = |c: usize| self.readers.iter().any(|owner| is_of(owner, c));
        let mut order: Vec<_> = (0..self.clients.len()).collect();
        order.sort_by_key(|&c| {
            let place = self.place_of(c).unwrap_or(usize::MAX);
            (place, writes(c), reads(c), &self.clients[c])
        });
        let new = |old: &mut u8| {
            let at = order.iter().position(|c| *c == *old as usize);
            *old = at.map_or(*old, |at| at as u8);
        };
        self.line
            .iter_mut()
            .for_each(|place| new(&mut place.client));
        for owner in self.readers.iter_mut().chain(&mut self.writer) {
            if let Owner::Ours(c) | Owner::Orphan(c) = owner {
                new(c);
            }
        }
        self.readers.sort_unstable();
        self.clients = order.iter().map(|c| self.clients[*c].clone()).collect();
    }
}
