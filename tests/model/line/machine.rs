//! What is checked, and the possible steps.

use std::fmt::Debug;

use super::promises;
use super::state::{Owner, Phase, Role, State, Subscription};
use crate::check::{Model, Promises, Step};

/// What is checked, and how many failures occur.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub planted: Option<Planted>,
    /// As what the thread of each client waits.
    pub clients: Vec<&'static [Role]>,
    /// What Java clients hold. Of each role there is one.
    pub java: &'static [Role],
    /// Writers may also acquire the read lock.
    pub has_downgrades: bool,
    /// A place has a channel for its lock, so a client unsubscribes when its wait has ended.
    pub has_lock_channels: bool,
    /// The number of failures, each of any kind.
    pub faults: u8,
    /// Failures are the ends of processes and of the line, and stops, while nothing is under way. A
    /// client that waits goes on until it has the lock, and looks and asks only when it has to.
    pub only_ends: bool,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A release calls the first place without a mark.
    NotMarked,
    /// A place on whose channel no client listens is called, and stays.
    DeadKept,
    /// A called client that is refused leaves its mark.
    MarkKept,
    /// A reader that is granted the lock removes the mark of a writer.
    MarkDropped,
    /// A place is removed when it is called.
    DroppedAtCall,
    /// The first place leaves a free lock, and does not call the next one.
    LeavesSilently,
    /// The first place leaves a lock that readers hold, and does not call the next one.
    LeavesReadersSilently,
    /// The first place leaves a lock that a writer of Java holds, and does not call the next one.
    LeavesJavaSilently,
    /// The last reader of the library leaves readers of Java, and does not call the first place.
    LeavesJavaReaders,
    /// A writer that keeps its read lock does not call the first reader.
    DowngradesSilently,
    /// A reader that is granted the lock does not call the next one.
    ChainBroken,
    /// A reader enters although a writer is first.
    PassesWriter,
    /// A reader that waits enters before another one that was called.
    PassesCalledReader,
    /// A refused reader never asks whether the first writer lives.
    NotProbed,
    /// A place keeps the role with which it entered.
    RoleKept,
    /// A client that is called and does not wait removes its place whatever its state.
    OnlyIfCalledIgnored,
    /// A client that is called and does not wait keeps its place.
    CallIgnored,
    /// A client that is called and does not wait keeps its place if the lock has an owner again.
    LeavesOnlyIfFree,
    /// A message that arrives during the last request of a wait has no effect.
    LastCallIgnored,
    /// A mark has no end.
    ReservedWithoutEnd,
    /// After a call without an answer, the next client is called, and not the next two.
    OneByOne,
    /// A client whose script has called another one does not look when the time of the call is
    /// over.
    NotFollowed,
    /// A client that waits does not look after the line.
    NotLooked,
    /// A client whose look finds no place does not ask.
    LossNotSeen,
    /// A waiting client takes a free lock for which no client is called.
    PassesFirst,
    /// A thread does not ask again when its subscription is confirmed.
    NotAskedAfterConfirmation,
    /// A thread decides once whether it listens to Java.
    RankStale,
    /// A message that arrives during a request is forgotten when the reply arrives.
    MessageForgotten,
    /// A thread that gives up leaves its place to another one, which does not ask at once.
    HeirSilent,
    /// A thread that gives up leaves the line although another thread of the client goes on.
    HeirForgotten,
    /// A waiting client takes a lock that is reserved for another one.
    Barges,
}

impl Bounds {
    pub fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    /// How many owners can read at once.
    pub fn readers(&self) -> usize {
        let can_read = |roles: &&[Role]| roles.contains(&Role::Reader);
        let java = [self.java];
        self.clients
            .iter()
            .chain(&java)
            .copied()
            .filter(|roles| can_read(roles))
            .count()
    }
}

impl State {
    fn owners(&self) -> impl Iterator<Item = (Role, Owner)> {
        let writers = self.writer.iter().map(|owner| (Role::Writer, *owner));
        writers.chain(self.readers.iter().map(|owner| (Role::Reader, *owner)))
    }

    /// The steps that need no timer and no decision.
    pub fn urgent(&self, bounds: &Bounds, step: &mut Step<'_, Self>) {
        for (c, client) in self.clients.iter().enumerate() {
            if client.leaves_if_called {
                step(&("leaves, because called", c), &|next| {
                    next.run_leave_if_called(c, bounds);
                });
            }
            if !client.responds() {
                continue;
            }
            if client.is_looking {
                step(&("looks", c), &|next| next.look(c, bounds));
            }
            match client.phase {
                Phase::Asked { .. } => {
                    step(&("reads its reply", c), &|next| next.receive(c, bounds));
                }
                Phase::Sleeps if client.woken => {
                    step(&("asks", c), &|next| next.ask(c, true, false, bounds));
                }
                _ => {}
            }
            if client.subscription == Subscription::Sent {
                step(&("is subscribed", c), &|next| next.subscribe(c, bounds));
            }
            if client.call {
                step(&("is called", c), &|next| next.deliver(c, bounds));
            }
        }
        for (role, owner) in self.owners() {
            if let Owner::Orphan(c) = owner
                && self.clients[c as usize].responds()
            {
                step(&("is released", owner), &|next| {
                    next.release(c as usize, role, owner, bounds);
                });
            }
        }
    }

    pub fn is_quiet(&self, bounds: &Bounds) -> bool {
        let mut is_quiet = true;
        self.urgent(bounds, &mut |_, _| is_quiet = false);
        is_quiet
    }

    fn faults(&self, bounds: &Bounds, step: &mut Step<'_, Self>) {
        let mut fault = |name: &dyn Debug, effect: &dyn Fn(&mut Self)| {
            step(name, &|next| {
                next.faults -= 1;
                (next.rounds, next.looks) = (0, 0);
                next.is_unfollowed = true;
                effect(next);
            });
        };
        for (c, client) in self.clients.iter().enumerate() {
            if client.phase == Phase::Gone {
                continue;
            }
            fault(&("is killed", c), &|next| next.clients[c].end(false));
            fault(&("host vanishes", c), &|next| next.clients[c].end(true));
            if !client.stopped {
                fault(&("stops", c), &|next| {
                    next.clients[c].stopped = true;
                });
            }
            if bounds.only_ends {
                continue;
            }
            fault(&("breaks the lock", c), &|next| next.break_lock(c, bounds));
            if client.subscription != Subscription::Off {
                // The server knows it, or counts the receiver until the client subscribes again.
                for counted in [false, true] {
                    fault(&("subscription breaks, counted", c, counted), &|next| {
                        next.break_connection(c, counted);
                    });
                }
            }
            match client.phase {
                Phase::Asked { .. } => {
                    fault(&("reply is lost", c), &|next| next.lose_reply(c));
                }
                Phase::Sleeps if client.responds() => {
                    for waits in [true, false] {
                        fault(&("request is late, waits", c, waits), &|next| {
                            next.ask(c, waits, true, bounds);
                        });
                    }
                    fault(&("leaves late", c), &|next| next.interrupt(c, true, bounds));
                }
                _ => {}
            }
        }
        if !self.line.is_empty() {
            // An eviction, or a command of the user.
            fault(&"the line is deleted", &Self::delete_line);
        }
        if bounds.only_ends {
            return;
        }
        for lost in [false, true] {
            // The subscriptions end.
            fault(&("slot moves, line is lost", lost), &|next| {
                next.move_slot(lost);
            });
        }
        for (role, owner) in self.owners().filter(|(_, owner)| *owner == Owner::Java) {
            step(&("lease of Java ends", role), &|next| {
                next.end_lease(role, owner);
            });
        }
    }

    /// What a client decides that does not wait for a message.
    fn decisions(&self, c: usize, bounds: &Bounds, step: &mut Step<'_, Self>) {
        let client = &self.clients[c];
        let is_subscribed = client.subscription == Subscription::On;
        if bounds.has_lock_channels && is_subscribed && !client.waits() {
            step(&("unsubscribes", c), &|next| next.unsubscribe(c));
        }
        if bounds.only_ends && client.phase == Phase::Sleeps {
            return;
        }
        if client.follows || client.waits() {
            step(&("looks early", c), &|next| next.look(c, bounds));
        }
        match client.phase {
            Phase::Idle => {
                for &role in client.roles {
                    step(&("begins to wait", c, role), &|next| next.begin(c, role));
                    step(&("tries", c, role), &|next| {
                        next.clients[c].role = role;
                        next.ask(c, false, false, bounds);
                    });
                }
            }
            Phase::Sleeps => {
                step(&("gives up", c), &|next| next.ask(c, false, false, bounds));
                step(&("is interrupted", c), &|next| {
                    next.interrupt(c, false, bounds);
                });
                for &role in client.roles {
                    step(&("another thread goes on", c, role), &|next| {
                        next.inherit(c, role, bounds);
                    });
                }
                if !client.woken {
                    step(&("timer ends", c), &|next| next.wake(c));
                }
            }
            Phase::Holds => {
                let own = Owner::Ours(c as u8);
                for (role, _) in self.owners().filter(|(_, owner)| *owner == own) {
                    step(&("unlocks", c, role), &|next| next.unlock(c, role, bounds));
                }
                if bounds.has_downgrades && self.writer == Some(own) && self.readers.is_empty() {
                    step(&("reads, too", c), &|next| next.readers.push(own));
                }
            }
            _ => {}
        }
    }
}

impl Model for Bounds {
    type State = State;

    fn start(&self) -> State {
        State::new(self)
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        if state.broken.is_some() {
            return;
        }
        state.urgent(self, step);
        if state.is_quiet(self) && (state.has_call_to_end(self) || state.is_waited_for()) {
            step(&"time passes", &|next| next.time(self));
        }
        for (c, client) in state.clients.iter().enumerate() {
            for &late in &client.late {
                step(&("runs late", late, c), &|next| {
                    next.run_late(c, late, self);
                });
            }
            if client.stopped {
                step(&("continues", c), &|next| next.go_on(c));
            }
            if client.responds() {
                state.decisions(c, self, step);
            }
        }
        for (role, owner) in state.owners() {
            match owner {
                Owner::Java => {
                    step(&("Java releases", role), &|next| next.java_releases(role));
                }
                Owner::Ours(c) | Owner::Orphan(c) if !state.clients[c as usize].responds() => {
                    step(&("lease ends", owner, role), &|next| {
                        next.end_lease(role, owner);
                    });
                }
                _ => {}
            }
        }
        for &role in self.java {
            let is_open = match role {
                Role::Writer => state.is_free(),
                Role::Reader => state.writer.is_none() && !state.has_java(),
            };
            if is_open {
                step(&("Java takes", role), &|next| next.java_takes(role));
            }
        }
        if state.faults > 0 && (!self.only_ends || state.is_quiet(self)) {
            state.faults(self, step);
        }
    }

    fn normalize(&self, state: &mut State) {
        state.normalize();
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        promises::check(self, state, promises);
    }
}
