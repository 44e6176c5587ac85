//! The state of the model, normalized so that equivalent situations are equal states.

use std::hash::{Hash, Hasher};

use crate::client::{Client, Request};
use crate::protocol::{Planted, Protocol};
use crate::redis::{self, Command, Key, OwnerIds, Reply, Script};
use crate::steps::Machine;

pub const CLIENTS: usize = 2;

/// A connection on which a command got no reply, or whose client crashed. Its commands may be
/// executed at any later time, in order, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Late {
    pub client: u8,
    /// The unanswered copy, unless it was executed.
    pub copy: Option<Command>,
    /// The command that was sent behind it.
    pub behind: Option<Command>,
    /// The call that sent the copy still runs, and may send another command behind it.
    pub kept: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub key: Option<Key>,
    pub clients: [Client; CLIENTS],
    pub late: Vec<Late>,
    /// The failures that may still occur.
    pub unanswered: u8,
    pub deletions: u8,
    pub crashes: u8,
    /// A release deleted a hold that its client believed to be valid.
    pub foreign_release: bool,
    /// A holder was notified of a loss although its hold was valid.
    pub false_loss: bool,
}

/// A few numbers hash much faster than the single fields.
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
                | u64::from(self.foreign_release) << 28
                | u64::from(self.false_loss) << 29,
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
            foreign_release: false,
            false_loss: false,
        }
    }

    /// True if Redis has the client's hold, perhaps under an id that the client assigned just now.
    pub fn owns(&self, client: usize) -> bool {
        let this = &self.clients[client];
        let command = this.call.map(|call| call.request.command);
        let to = command
            .filter(|command| command.script == Script::Move)
            .map_or(OwnerIds::default(), |command| OwnerIds::of(command.to));
        this.hold
            .is_some_and(|hold| self.key_is_of(client, hold.ids.with(to)))
    }

    pub fn key_is_of(&self, client: usize, ids: OwnerIds) -> bool {
        self.key.is_some_and(|key| key.is_of(client as u8, ids))
    }

    /// The server runs a command.
    pub fn run(&mut self, command: &Command, protocol: &Protocol) -> Reply {
        let before = self.key;
        let reply = redis::run(&mut self.key, command, protocol);
        if let (Some(key), None, Script::Release) = (before, self.key, command.script) {
            self.foreign_release |= self.clients[key.client as usize]
                .hold
                .is_some_and(|hold| hold.stands() && key.is_of(key.client, hold.ids));
        }
        reply
    }

    /// Redis reported that the client does not have its hold.
    pub fn lose(&mut self, client: usize, protocol: &Protocol) {
        self.retire_if_renewing(client, protocol);
        if self.clients[client].stands() {
            self.false_loss |= self.owns(client);
            self.clients[client].end_hold();
        }
    }

    /// An unused owner id. An id that nothing refers to counts as never used.
    pub fn fresh_id(&self, client: usize) -> u8 {
        let used = self.ids_in_use(client);
        (0..8)
            .find(|number| !used.has(*number))
            .expect("eight names are more than the faults can occupy")
    }

    /// All owner ids in use, except the one in the client's `owner`.
    fn ids_in_use(&self, client: usize) -> OwnerIds {
        let key = self.key.filter(|key| key.client as usize == client);
        let late = self
            .late
            .iter()
            .filter(|late| late.client as usize == client);
        late.flat_map(|late| [late.copy, late.behind])
            .flatten()
            .map(|command| command.ids.with(OwnerIds::of(command.to)))
            .chain(key.map(|key| OwnerIds::of(key.number)))
            .fold(self.clients[client].ids_in_use(), OwnerIds::with)
    }

    /// Removes what makes no difference any more, and renumbers the owner ids from 0.
    pub fn normalize(mut self, machine: &Machine) -> Self {
        for client in 0..CLIENTS {
            if !machine.protocol.has(Planted::ReleaseUnchecked) {
                self.drop_obsolete(client, &machine.protocol);
            }
            let used = self.ids_in_use(client);
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

    /// Drops commands whose owner ids the key neither has nor will have. They change nothing.
    fn drop_obsolete(&mut self, client: usize, protocol: &Protocol) {
        let this = &self.clients[client];
        if self.late.is_empty() && this.watchdog.is_none() && this.orphans.is_empty() {
            return;
        }
        let live = self.live_ids(client, protocol);
        let obsolete = |command: &Command| !command.ids.intersects(live);
        for late in self
            .late
            .iter_mut()
            .filter(|late| late.client as usize == client)
        {
            late.copy = late.copy.filter(|command| !obsolete(command));
            late.behind = late.behind.filter(|command| !obsolete(command));
        }
        let this = &mut self.clients[client];
        let stale = this.watchdog_is_stale();
        this.orphans = this.orphans.without(this.orphans.without(live));
        this.watchdog = this.watchdog.filter(|request| {
            let obsolete = obsolete(&request.command);
            if request.command.script == Script::Release {
                !obsolete
            } else {
                !stale || (request.reply.is_none() && !obsolete)
            }
        });
        if let Some(request) = this.watchdog.as_mut().filter(|_| stale) {
            request.age = 0;
        }
    }

    /// The owner ids that the key has or may still get.
    fn live_ids(&self, client: usize, protocol: &Protocol) -> OwnerIds {
        let this = &self.clients[client];
        let key = self.key.filter(|key| key.client as usize == client);
        let late = self
            .late
            .iter()
            .filter(|late| late.client as usize == client);
        let call = this.call.map(|call| call.request.command);
        let sent = late
            .flat_map(|late| [late.copy, late.behind])
            .flatten()
            .chain(call)
            .chain(this.watchdog.map(|request| request.command));
        // A recount or renewal changes nothing unless the key has one of its ids.
        let acquires_again = this
            .hold
            .filter(|_| protocol.has(Planted::NestedAcquiresAgain));
        let mut live = acquires_again.map_or(OwnerIds::default(), |hold| hold.ids);
        for number in key.map(|key| key.number).into_iter().chain(this.owner) {
            live = live.with(OwnerIds::of(number));
        }
        let mut moves = [None; 8];
        let mut count = 0;
        for command in sent {
            match command.script {
                Script::Acquire => live = live.with(command.ids),
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
                if command.ids.intersects(live) {
                    live = live.with(OwnerIds::of(command.to));
                }
            }
        }
        live
    }

    /// Numbers the owner ids of a client in the order of first use.
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
            numbering.command(&mut call.request.command);
        }
        if let Some(hold) = &mut this.hold {
            numbering.ids(&mut hold.ids);
            hold.recount_to
                .iter_mut()
                .for_each(|number| numbering.number(number));
        }
        if let Some(request) = &mut this.watchdog {
            numbering.command(&mut request.command);
        }
        numbering.ids(&mut this.orphans);
        numbering.ids(&mut this.still_renewed);
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

    /// Swaps the two clients. States that differ only by this are equivalent.
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
                .for_each(|call| rename(&mut call.request.command));
            client
                .watchdog
                .iter_mut()
                .for_each(|request: &mut Request| rename(&mut request.command));
        }
        for late in &mut self.late {
            late.client = 1 - late.client;
            late.copy.iter_mut().for_each(rename);
            late.behind.iter_mut().for_each(rename);
        }
        self.late.sort_unstable();
    }
}

/// Maps old numbers to new ones.
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

    fn ids(&mut self, ids: &mut OwnerIds) {
        let mut left = ids.0;
        *ids = OwnerIds::default();
        while left != 0 {
            let mut number = left.trailing_zeros() as u8;
            left &= left - 1;
            self.number(&mut number);
            *ids = ids.with(OwnerIds::of(number));
        }
    }

    fn command(&mut self, command: &mut Command) {
        let renames = matches!(command.script, Script::Acquire | Script::Move);
        if renames {
            self.number(&mut command.to);
        }
        self.ids(&mut command.ids);
        if !renames {
            command.to = command.ids.0.trailing_zeros() as u8;
        }
    }
}
