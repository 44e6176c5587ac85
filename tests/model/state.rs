//! The state of the model, normalized so that equivalent situations are equal states.

use crate::check::renumber;
use crate::client::Client;
use crate::promises::FOREIGN_RELEASE;
use crate::protocol::{CLIENTS, Planted, Protocol};
use crate::redis::{Command, OwnerIds, Redis, Reply, Script};

/// A connection on which a command got no reply, or whose client crashed. Its commands may be
/// executed at any later time, in order, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Late {
    pub client: u8,
    /// The unanswered copy, unless it was executed.
    pub copy: Option<Command>,
    /// The owner ids that the release behind it names.
    pub behind: OwnerIds,
    /// The call that sent the copy still runs, and may send a release behind it.
    pub open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub redis: Redis,
    pub clients: [Client; CLIENTS],
    pub late: Vec<Late>,
    /// The failures that may still occur.
    pub unanswered: u8,
    pub breaks: u8,
    pub deletions: u8,
    pub crashes: u8,
    /// The highest token that a hold has had.
    pub highest_token: u8,
    /// A promise that a step has broken.
    pub broken: Option<&'static str>,
}

impl State {
    pub fn new(protocol: &Protocol) -> Self {
        Self {
            redis: Redis {
                available: protocol.capacity() as i8,
                leases: Vec::new(),
                last_token: 0,
            },
            clients: [Client::default(); CLIENTS],
            late: Vec::new(),
            unanswered: protocol.unanswered,
            breaks: protocol.breaks,
            deletions: protocol.deletions,
            crashes: protocol.crashes,
            highest_token: 0,
            broken: None,
        }
    }

    /// True if Redis has the client's grant, and its lease has not ended.
    pub fn owns(&self, client: usize) -> bool {
        let mut live = self.redis.leases.iter().filter(|lease| lease.left > 0);
        let grant = self.clients[client].grant;
        grant.is_some_and(|grant| live.any(|lease| lease.is_of(client, OwnerIds::of(grant.id))))
    }

    /// Redis runs a command.
    pub fn run(&mut self, command: &Command, protocol: &Protocol) -> Reply {
        let owners = [0, 1].map(|client| self.owns(client));
        let reply = self.redis.run(command, protocol);
        if (0..CLIENTS).any(|client| owners[client] && !self.owns(client)) {
            self.broken = Some(FOREIGN_RELEASE);
        }
        reply
    }

    /// An unused owner id. An id that nothing refers to counts as never used.
    pub fn fresh_id(&self, client: usize, protocol: &Protocol) -> u8 {
        if protocol.has(Planted::OwnerIdReused) {
            return 0;
        }
        let mut used = OwnerIds::default();
        self.clone()
            .each_id(client, |id| used = used.with(OwnerIds::of(*id)));
        let mut free = OwnerIds(!used.0).numbers();
        free.next()
            .expect("the failures cannot use eight owner ids")
    }

    /// Removes what makes no difference any more, and renumbers owner ids and tokens.
    pub fn normalize(&mut self, protocol: &Protocol) {
        // With these bugs, commands change something that otherwise change nothing.
        let all_matter = [
            Planted::OwnerIdReused,
            Planted::ReleaseUnchecked,
            Planted::ReleaseUncounted,
            Planted::RenewUnchecked,
            Planted::RenewalLeases,
            Planted::StaleReplyBelieved,
        ];
        for client in (0..CLIENTS).filter(|_| !all_matter.map(Some).contains(&protocol.planted)) {
            self.drop_obsolete(client);
        }
        self.late
            .retain(|late| late.open || late.copy.is_some() || !late.behind.is_empty());
        for (client, threads) in protocol.threads.into_iter().enumerate() {
            // The threads of a client are equivalent.
            self.clients[client].threads[..threads].sort_unstable();
            self.each_id(client, renumber());
        }
        self.late.sort_unstable();
        self.redis.leases.sort_unstable();
        self.renumber_tokens();
    }

    /// Drops commands whose owner ids no lease has or will have. They change nothing.
    fn drop_obsolete(&mut self, client: usize) {
        let live = self.live_ids(client);
        let this = &mut self.clients[client];
        let is_obsolete = |command: &Command| command.ids.intersection(live).is_empty();
        if this.renewal_is_stale() {
            this.renewal = this
                .renewal
                .filter(|renewal| !renewal.failed && !is_obsolete(&renewal.command));
            if let Some(renewal) = &mut this.renewal {
                renewal.age = 0;
            }
        }
        this.orphans = this.orphans.intersection(live);
        if let Some(call) = &mut this.call
            && call.command.script == Script::Acquire
        {
            let ids = live.with(OwnerIds::of(call.command.to));
            call.command.ids = call.command.ids.intersection(ids);
        }
        for late in self.late.iter_mut().filter(|late| late.is_of(client)) {
            late.copy = late.copy.filter(|command| !is_obsolete(command));
            if let Some(command) = &mut late.copy {
                command.ids = command.ids.intersection(live);
            }
            late.behind = late.behind.intersection(live);
        }
    }

    /// The owner ids that a lease has or may still get.
    fn live_ids(&self, client: usize) -> OwnerIds {
        let leases = self.redis.leases.iter();
        let leased = leases.filter(|lease| lease.client as usize == client);
        let call = self.clients[client]
            .call
            .filter(|call| call.reply.is_none());
        let late = self.late.iter().filter(|late| late.is_of(client));
        let sent = late.filter_map(|late| late.copy);
        sent.chain(call.map(|call| call.command))
            .filter(|command| command.script == Script::Acquire)
            .map(|command| command.to)
            .chain(leased.map(|lease| lease.id))
            .fold(OwnerIds::default(), |ids, id| ids.with(OwnerIds::of(id)))
    }

    /// Calls `f` with each mention of an owner id of the client.
    fn each_id(&mut self, client: usize, mut f: impl FnMut(&mut u8)) {
        let this = &mut self.clients[client];
        if let Some(grant) = &mut this.grant {
            f(&mut grant.id);
        }
        let leases = self.redis.leases.iter_mut();
        leases
            .filter(|lease| lease.client as usize == client)
            .for_each(|lease| f(&mut lease.id));
        if let Some(call) = &mut this.call {
            each_id_of(&mut call.command, &mut f);
        }
        if let Some(renewal) = &mut this.renewal {
            each_id_of(&mut renewal.command, &mut f);
        }
        each_in(&mut this.orphans, &mut f);
        for late in self.late.iter_mut().filter(|late| late.is_of(client)) {
            if let Some(command) = &mut late.copy {
                each_id_of(command, &mut f);
            }
            each_in(&mut late.behind, &mut f);
        }
    }

    /// Replaces each token by its rank: only the order of tokens makes a difference.
    fn renumber_tokens(&mut self) {
        let mut tokens = 0_u64;
        self.each_token(|token| tokens |= 1 << *token);
        self.each_token(|token| *token = (tokens & ((1 << *token) - 1)).count_ones() as u8);
    }

    /// Calls `f` with each token that makes a difference.
    fn each_token(&mut self, mut f: impl FnMut(&mut u8)) {
        f(&mut self.highest_token);
        f(&mut self.redis.last_token);
        for client in &mut self.clients {
            if let Some(grant) = &mut client.grant {
                each_in_block(&mut grant.next_token, grant.tokens, &mut f);
            }
            if let Some(call) = &mut client.call
                && let Some(Reply::Done(first)) = &mut call.reply
            {
                each_in_block(first, call.command.tokens, &mut f);
            }
        }
    }
}

/// Calls `f` with each token of a block. The block of new tokens begins with the new first one.
fn each_in_block(first: &mut u8, count: u8, f: &mut impl FnMut(&mut u8)) {
    for index in 1..count {
        f(&mut (*first + index));
    }
    f(first);
}

fn each_id_of(command: &mut Command, f: &mut impl FnMut(&mut u8)) {
    if command.script == Script::Acquire {
        f(&mut command.to);
    }
    each_in(&mut command.ids, f);
}

fn each_in(ids: &mut OwnerIds, f: &mut impl FnMut(&mut u8)) {
    let old = std::mem::take(ids);
    for mut id in old.numbers() {
        f(&mut id);
        *ids = ids.with(OwnerIds::of(id));
    }
}

impl Late {
    pub fn new(client: usize, copy: Option<Command>, open: bool) -> Self {
        Self {
            client: client as u8,
            copy,
            behind: OwnerIds::default(),
            open,
        }
    }

    pub fn is_of(&self, client: usize) -> bool {
        self.client as usize == client
    }
}
