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
    /// It was called however many permits were free, or although another client waits before it.
    pub is_extra: bool,
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
    /// How many calls before that of the first client had no answer.
    pub round: u8,
    /// A client was probed in the last second.
    pub is_probed: bool,
    /// Clients that need more permits than are free let those behind them pass.
    pub is_passing: bool,
    /// No client heard of a release of Java, and none has asked since.
    pub is_silent: bool,
    /// Requests by timers since one was due.
    pub polls: u8,
    /// How often called clients were late since one was due.
    pub rounds: u8,
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
    /// The first client that waits could have its permits, beside those that are reserved for
    /// clients of which this is true.
    pub fn is_due(&self, is_reserved: impl Fn(&Client) -> bool) -> bool {
        let first = self.line.iter().position(|place| {
            let client = &self.clients[place.client];
            client.waits() && client.responds() && !self.lets_pass(client)
        });
        first.is_some_and(|at| {
            let place = self.line[at];
            let called = self.line.iter().filter(|other| other.is_called);
            let called = called.filter(|other| other.client != place.client);
            let called = called.map(|other| &self.clients[other.client]);
            let reserved: i8 = called
                .filter(|other| is_reserved(other))
                .map(|other| other.needs)
                .sum();
            // A client before it may need more.
            let is_first = self.line[..at].iter().all(|before| {
                let client = &self.clients[before.client];
                before.is_called || !client.responds() || self.lets_pass(client)
            });
            is_first && self.free - reserved >= self.clients[place.client].needs
        })
    }

    fn lets_pass(&self, client: &Client) -> bool {
        self.is_passing && client.needs > self.free
    }

    /// True if a client in the line cannot answer, or does not know that it has to.
    pub fn has_silent_place(&self) -> bool {
        let mut places = self.line.iter().map(|place| &self.clients[place.client]);
        self.is_silent
            || places.any(|client| !client.responds() || !client.waits() || client.has_missed)
    }
}
