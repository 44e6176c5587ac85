//! Everything at one moment, in a form in which equal situations are equal states.

use std::hash::{Hash, Hasher};

use crate::client::{Client, Round};
use crate::protocol::{Planted, Protocol};
use crate::redis::{self, Command, Key, Names, Reply, Script};
use crate::steps::Machine;

pub const CLIENTS: usize = 2;

/// A connection on which a command got no answer, or whose client crashed. What is on it may be
/// executed at any later time, in order, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Late {
    pub client: u8,
    /// The copy that got no answer, unless it is done already.
    pub copy: Option<Command>,
    /// What was sent behind it.
    pub behind: Option<Command>,
    /// The call that sent the copy goes on, and may send something behind it.
    pub kept: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub key: Option<Key>,
    pub clients: [Client; CLIENTS],
    pub late: Vec<Late>,
    /// What may still go wrong.
    pub unanswered: u8,
    pub deletions: u8,
    pub crashes: u8,
    /// A release deleted a hold that its client believed in.
    pub freed: bool,
    /// A holder was told of a loss that was none.
    pub misled: bool,
}

/// Hashed often, and much faster as a few numbers than field by field.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for client in &self.clients {
            client.hash(hasher);
        }
        for late in &self.late {
            let bits = |command: Option<Command>| command.map_or(0, |c| c.bits() << 1 | 1);
            let (copy, behind) = (bits(late.copy), bits(late.behind));
            let ends = u64::from(late.client) << 62 | u64::from(late.kept) << 63;
            hasher.write_u64(copy | behind << 19 | ends);
        }
        hasher.write_u64(
            self.key.map_or(0, |key| key.bits() << 1 | 1)
                | (self.late.len() as u64) << 12
                | u64::from(self.unanswered) << 16
                | u64::from(self.deletions) << 20
                | u64::from(self.crashes) << 24
                | u64::from(self.freed) << 28
                | u64::from(self.misled) << 29,
        );
    }
}

impl State {
    pub fn new(protocol: &Protocol) -> Self {
        Self {
            key: None,
            clients: [Client::default(); CLIENTS],
            late: Vec::new(),
            unanswered: protocol.unanswered,
            deletions: protocol.deletions,
            crashes: protocol.crashes,
            freed: false,
            misled: false,
        }
    }

    /// Whether the client's hold stands in Redis, perhaps under a name that the client has just given
    /// it.
    pub fn owns(&self, client: usize) -> bool {
        let this = &self.clients[client];
        let command = this.call.map(|call| call.round.command);
        let to = command
            .filter(|command| command.script == Script::Move)
            .map_or(Names::default(), |command| Names::of(command.to));
        this.hold
            .is_some_and(|hold| self.key_is_of(client, hold.names.with(to)))
    }

    pub fn key_is_of(&self, client: usize, names: Names) -> bool {
        self.key.is_some_and(|key| key.is_of(client as u8, names))
    }

    /// The server runs a command.
    pub fn run(&mut self, command: &Command, protocol: &Protocol) -> Reply {
        let before = self.key;
        let reply = redis::run(&mut self.key, command, protocol);
        if let (Some(key), None, Script::Release) = (before, self.key, command.script) {
            self.freed |= self.clients[key.client as usize]
                .hold
                .is_some_and(|hold| hold.stands() && key.is_of(key.client, hold.names));
        }
        reply
    }

    /// Redis says of a hold that it is not the client's.
    pub fn lose(&mut self, client: usize, protocol: &Protocol) {
        self.unconfirmed(client, protocol);
        if self.clients[client].stands() {
            self.misled |= self.owns(client);
            self.clients[client].end_hold();
        }
    }

    /// A name that nothing refers to is as good as one that was never used.
    pub fn fresh_name(&self, client: usize) -> u8 {
        let used = self.names_in_use(client);
        (0..8)
            .find(|number| !used.has(*number))
            .expect("eight names are more than the faults can occupy")
    }

    /// All that anything but the client's own `owner` refers to.
    fn names_in_use(&self, client: usize) -> Names {
        let key = self.key.filter(|key| key.client as usize == client);
        let late = self
            .late
            .iter()
            .filter(|late| late.client as usize == client);
        late.flat_map(|late| [late.copy, late.behind])
            .flatten()
            .map(|command| command.names.with(Names::of(command.to)))
            .chain(key.map(|key| Names::of(key.number)))
            .fold(self.clients[client].names_in_use(), Names::with)
    }

    /// Without what makes no difference any more, and with the lower numbers for the names.
    pub fn tidy(mut self, machine: &Machine) -> Self {
        for client in 0..CLIENTS {
            if !machine.protocol.has(Planted::ReleaseUnchecked) {
                self.drop_what_is_in_vain(client, &machine.protocol);
            }
            let used = self.names_in_use(client);
            let owner = &mut self.clients[client].owner;
            *owner = owner.filter(|number| used.has(*number));
            self.renumber(client);
        }
        self.late
            .retain(|late| late.kept || late.copy.is_some() || late.behind.is_some());
        self.late.sort_unstable();
        if machine.symmetric && self.clients[1] < self.clients[0] {
            self.swap();
        }
        self
    }

    /// A command under names that nobody has any more, nor ever will, changes nothing.
    fn drop_what_is_in_vain(&mut self, client: usize, protocol: &Protocol) {
        let this = &self.clients[client];
        if self.late.is_empty() && this.dog.is_none() && this.withdrawals.is_empty() {
            return;
        }
        let live = self.live_names(client, protocol);
        let in_vain = |command: &Command| !command.names.meets(live);
        for late in self
            .late
            .iter_mut()
            .filter(|late| late.client as usize == client)
        {
            late.copy = late.copy.filter(|command| !in_vain(command));
            late.behind = late.behind.filter(|command| !in_vain(command));
        }
        let this = &mut self.clients[client];
        let stale = this.asks_in_vain();
        this.withdrawals = this.withdrawals.without(this.withdrawals.without(live));
        this.dog = this.dog.filter(|round| {
            let in_vain = in_vain(&round.command);
            if round.command.script == Script::Release {
                !in_vain
            } else {
                !stale || (round.reply.is_none() && !in_vain)
            }
        });
        if let Some(round) = this.dog.as_mut().filter(|_| stale) {
            round.age = 0;
        }
    }

    /// The names that the key has, or may have yet.
    fn live_names(&self, client: usize, protocol: &Protocol) -> Names {
        let this = &self.clients[client];
        let key = self.key.filter(|key| key.client as usize == client);
        let late = self
            .late
            .iter()
            .filter(|late| late.client as usize == client);
        let call = this.call.map(|call| call.round.command);
        let sent = late
            .flat_map(|late| [late.copy, late.behind])
            .flatten()
            .chain(call)
            .chain(this.dog.map(|round| round.command));
        // What a hold does about itself finds its name there or does nothing.
        let taken_anew = this.hold.filter(|_| protocol.has(Planted::NestedTakesAnew));
        let mut live = taken_anew.map_or(Names::default(), |hold| hold.names);
        for number in key.map(|key| key.number).into_iter().chain(this.owner) {
            live = live.with(Names::of(number));
        }
        let mut moves = [None; 8];
        let mut count = 0;
        for command in sent {
            match command.script {
                Script::Acquire => live = live.with(command.names),
                Script::Move => {
                    moves[count] = Some(command);
                    count += 1;
                }
                _ => {}
            }
        }
        // One move may make another one possible.
        for _ in 0..count {
            for command in moves.iter().flatten() {
                if command.names.meets(live) {
                    live = live.with(Names::of(command.to));
                }
            }
        }
        live
    }

    /// Numbers the names of a client in the order in which they are met.
    fn renumber(&mut self, client: usize) {
        let mut numbering = Numbering::default();
        if let Some(key) = self
            .key
            .as_mut()
            .filter(|key| key.client as usize == client)
        {
            numbering.number(&mut key.number);
        }
        let this = &mut self.clients[client];
        this.owner
            .iter_mut()
            .for_each(|number| numbering.number(number));
        if let Some(call) = &mut this.call {
            numbering.command(&mut call.round.command);
        }
        if let Some(hold) = &mut this.hold {
            numbering.names(&mut hold.names);
            hold.settling
                .iter_mut()
                .for_each(|number| numbering.number(number));
        }
        if let Some(round) = &mut this.dog {
            numbering.command(&mut round.command);
        }
        numbering.names(&mut this.withdrawals);
        numbering.names(&mut this.unforgotten);
        for late in self
            .late
            .iter_mut()
            .filter(|late| late.client as usize == client)
        {
            late.copy
                .iter_mut()
                .for_each(|command| numbering.command(command));
            late.behind
                .iter_mut()
                .for_each(|command| numbering.command(command));
        }
    }

    /// The clients are alike: which is which makes no difference.
    fn swap(&mut self) {
        self.clients.swap(0, 1);
        if let Some(key) = &mut self.key {
            key.client = 1 - key.client;
        }
        let rename = |command: &mut Command| command.client = 1 - command.client;
        for client in &mut self.clients {
            client
                .call
                .iter_mut()
                .for_each(|call| rename(&mut call.round.command));
            client
                .dog
                .iter_mut()
                .for_each(|round: &mut Round| rename(&mut round.command));
        }
        for late in &mut self.late {
            late.client = 1 - late.client;
            late.copy.iter_mut().for_each(rename);
            late.behind.iter_mut().for_each(rename);
        }
        self.late.sort_unstable();
    }
}

/// New numbers for old ones.
#[derive(Default)]
struct Numbering {
    new: [Option<u8>; 8],
    next: u8,
}

impl Numbering {
    fn number(&mut self, number: &mut u8) {
        if self.new[*number as usize].is_none() {
            self.new[*number as usize] = Some(self.next);
            self.next += 1;
        }
        if let Some(new) = self.new[*number as usize] {
            *number = new;
        }
    }

    fn names(&mut self, names: &mut Names) {
        let mut left = names.0;
        *names = Names::default();
        while left != 0 {
            let mut number = left.trailing_zeros() as u8;
            left &= left - 1;
            self.number(&mut number);
            *names = names.with(Names::of(number));
        }
    }

    fn command(&mut self, command: &mut Command) {
        let renames = matches!(command.script, Script::Acquire | Script::Move);
        if renames {
            self.number(&mut command.to);
        }
        self.names(&mut command.names);
        if !renames {
            command.to = command.names.0.trailing_zeros() as u8;
        }
    }
}
