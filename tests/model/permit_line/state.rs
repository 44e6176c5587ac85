//! The state of the semaphore, of its line, and of the clients.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    #[default]
    Idle,
    /// It waits, and sends its next request when it is woken.
    Sleeps,
    /// The reply to its request is under way: it has the permits, or it waits.
    Asked {
        is_granted: bool,
        listens: bool,
    },
    Holds,
    Dead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Subscription {
    #[default]
    Off,
    Sent,
    On,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// How many permits it wants.
    pub needs: i8,
    pub phase: Phase,
    pub is_woken: bool,
    pub is_stopped: bool,
    /// To the channel for releases.
    pub subscription: Subscription,
    /// A call is under way to it.
    pub call: bool,
    /// A message of Java is under way to it.
    pub java: bool,
    /// A call was lost, and it has not asked since.
    pub has_missed: bool,
    /// It was called while no thread waited, and is about to leave the line.
    pub leaves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub client: usize,
    pub is_called: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub free: i8,
    pub java: i8,
    pub clients: Vec<Client>,
    /// In the order in which they entered.
    pub line: Vec<Place>,
    pub listener: Option<usize>,
    /// The first client that was called has not answered in time.
    pub is_late: bool,
    /// No client heard of a release of Java, and none has asked since.
    pub is_silent: bool,
    /// Requests by timers since one was due.
    pub polls: u8,
    pub faults: u8,
    pub broken: Option<&'static str>,
}

impl Client {
    pub fn new(needs: i8) -> Self {
        Self {
            needs,
            ..Self::default()
        }
    }

    pub fn waits(&self) -> bool {
        match self.phase {
            Phase::Sleeps => true,
            Phase::Asked { is_granted, .. } => !is_granted,
            _ => false,
        }
    }

    pub fn responds(&self) -> bool {
        !self.is_stopped && self.phase != Phase::Dead
    }

    pub fn has_permits(&self) -> bool {
        match self.phase {
            Phase::Asked { is_granted, .. } => is_granted,
            phase => phase == Phase::Holds,
        }
    }

    /// Its thread begins to wait, and answers calls.
    pub fn begin(&mut self) {
        (self.phase, self.is_woken, self.leaves) = (Phase::Sleeps, true, false);
    }

    /// The reply arrives.
    pub fn receive(&mut self) {
        let Phase::Asked {
            is_granted,
            listens,
        } = self.phase
        else {
            return;
        };
        if is_granted {
            (self.phase, self.is_woken) = (Phase::Holds, false);
        } else {
            self.phase = Phase::Sleeps;
        }
        self.subscription = match self.subscription {
            _ if !listens || is_granted => Subscription::Off,
            Subscription::Off => Subscription::Sent,
            subscription => subscription,
        };
    }
}

impl State {
    /// The first client that waits, if it could have its permits.
    pub fn is_due(&self) -> bool {
        let first = self.line.iter().position(|place| {
            let client = &self.clients[place.client];
            client.waits() && client.responds()
        });
        first.is_some_and(|at| {
            let place = self.line[at];
            let called = self.line.iter().filter(|other| other.is_called);
            let called = called.filter(|other| other.client != place.client);
            let reserved: i8 = called.map(|other| self.clients[other.client].needs).sum();
            // A client before it may need more.
            let is_first = self.line[..at].iter().all(|before| before.is_called);
            is_first && self.free - reserved >= self.clients[place.client].needs
        })
    }

    /// True if a client in the line cannot answer, or does not know that it has to.
    pub fn has_silent_place(&self) -> bool {
        let mut places = self.line.iter().map(|place| &self.clients[place.client]);
        self.is_silent
            || places.any(|client| !client.responds() || !client.waits() || client.has_missed)
    }
}
