//! One question to several clients' servers at once, answered at the speed of those that are well.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::advice::Advice;
use super::answer::in_vain;
use super::attempt::Failure;
use super::exchange::{Exchange, FIRST_LOOK, LONGEST_LOOK};
use super::pool::Slot;
use super::server::Server;
use super::wire::Wire;
use super::{Answer, Connections, InVain, NoAnswer, silence};
use crate::clock::Moment;
use crate::error::Cause;
use crate::key::LockKey;
use crate::owner;
use crate::patience::Patience;
use crate::script::Call;

/// What finding or opening one server may take while there are enough others, at the least.
const BRIEFLY: Duration = Duration::from_millis(100);

/// What is asked of one client's server.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) connections: &'a Connections,
    pub(crate) lock: &'a LockKey,
    pub(crate) call: Call,
}

/// How many answers of which kind make the others unnecessary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enough {
    pub(crate) needed: usize,
    pub(crate) is_good: fn(&Value) -> bool,
}

/// Asks all of them on this thread, each once: everything is sent before the first reply is read, first
/// where a connection is open. As soon as it is settled whether enough answers are good, the others are
/// waited for as long again, or as long as they usually take. A server that does not answer is left out for
/// a while, as long as there are enough others.
///
/// As with [`Connections::ask`], the thread's owner name is retired if a copy may still be under way.
pub(crate) fn ask_all(
    questions: &[Question<'_>],
    enough: Enough,
    patience: &Patience,
) -> Vec<Result<Answer, NoAnswer>> {
    let longest = questions
        .iter()
        .map(|q| q.connections.command_timeout)
        .max();
    let now = Moment::now();
    let time = longest.unwrap_or_default().min(patience.answer_by().left());
    let mut fanout = Fanout {
        questions,
        enough,
        patience,
        began: now,
        until: now.after(time),
        outcomes: questions.iter().map(|_| None).collect(),
    };
    let servers = fanout.servers();
    let slots = fanout.slots(&servers);
    let mut open = fanout.send_all(slots);
    fanout.receive_all(&mut open);
    let outcomes = fanout.finish(open);
    if outcomes
        .iter()
        .any(|outcome| in_vain(outcome).is_ambiguous())
    {
        owner::retire();
    }
    outcomes
}

struct Fanout<'q> {
    questions: &'q [Question<'q>],
    enough: Enough,
    patience: &'q Patience,
    began: Moment,
    until: Moment,
    outcomes: Vec<Option<Result<Answer, NoAnswer>>>,
}

/// Room for a connection to a server, and who is to be asked there.
type Room<'s> = (usize, &'s Server, Slot<'s>);

impl<'q> Fanout<'q> {
    /// Who is to be asked; the others are settled.
    fn servers(&mut self) -> Vec<(usize, Arc<Server>)> {
        let left_out: Vec<bool> = self
            .questions
            .iter()
            .map(|question| question.connections.suspicion.leaves_out())
            .collect();
        let can_spare = self.questions.len().saturating_sub(self.enough.needed);
        let spare = left_out.iter().filter(|&&out| out).count() <= can_spare;
        let mut servers = Vec::with_capacity(self.questions.len());
        let mut unknown = Vec::new();
        for (place, question) in self.questions.iter().enumerate() {
            if spare && left_out[place] {
                self.fail(
                    place,
                    "it did not answer lately, and is left out for a while".into(),
                );
                continue;
            }
            match question.connections.topology.known(question.lock) {
                Some(server) => servers.push((place, server)),
                None => unknown.push(place),
            }
        }
        for (tried, &place) in unknown.iter().enumerate() {
            let Question {
                connections, lock, ..
            } = &self.questions[place];
            let time = self.share(place, unknown.len() - tried, servers.len());
            match connections.topology.server(lock, time) {
                Ok(server) => servers.push((place, server)),
                Err(nowhere) => match Failure::nowhere(lock, nowhere) {
                    Failure::Final(error) => self.settle(place, Err(error.into())),
                    Failure::NoServer(cause) => {
                        connections.suspicion.unanswered();
                        self.fail(place, cause);
                    }
                    _ => self.fail(place, "no server is known that has the lock".into()),
                },
            }
        }
        servers
    }

    /// What the first of so many that are not at hand may take, if so many others are.
    fn share(&self, place: usize, untried: usize, at_hand: usize) -> Duration {
        let connections = self.questions[place].connections;
        let untried = u32::try_from(untried).unwrap_or(u32::MAX);
        let time = connections.connect_timeout.min(self.until.left() / untried);
        if at_hand < self.enough.needed {
            return time;
        }
        let unknown = connections.command_timeout / 4;
        time.min(connections.suspicion.grace(unknown).max(BRIEFLY))
    }

    /// Room for a connection to each. All threads take it in the same order, and before anything is sent:
    /// so nobody who waits for room keeps others waiting who have it.
    fn slots<'s>(&mut self, servers: &'s [(usize, Arc<Server>)]) -> Vec<Room<'s>> {
        let mut order: Vec<&(usize, Arc<Server>)> = servers.iter().collect();
        order.sort_by_key(|(_, server)| server.name());
        let mut rooms = Vec::with_capacity(order.len());
        for (tried, (place, server)) in order.into_iter().enumerate() {
            let connections = self.questions[*place].connections;
            // At least one share more than there are rooms to wait for is left for the replies.
            let time = self.share(*place, servers.len() - tried + 1, rooms.len());
            match server.pool.slot(connections.pool_timeout.min(time)) {
                Ok(slot) => rooms.push((*place, &**server, slot)),
                Err(_) => {
                    connections.suspicion.unanswered();
                    self.fail(*place, "all connections of the pool are in use".into());
                }
            }
        }
        rooms
    }

    /// Sends to each, first to those with a connection that is open, and last to suspects.
    fn send_all<'s>(&mut self, rooms: Vec<Room<'s>>) -> Vec<Exchange<'s>> {
        let mut sent = Vec::with_capacity(rooms.len());
        let mut unopened = Vec::new();
        for (place, server, mut slot) in rooms {
            match slot.take() {
                Some(wire) => sent.extend(self.send(place, server, slot, wire)),
                None => unopened.push((place, server, slot)),
            }
        }
        unopened.sort_by_key(|(place, ..)| self.questions[*place].connections.is_suspect());
        let count = unopened.len();
        for (tried, (place, server, slot)) in unopened.into_iter().enumerate() {
            let time = self.share(place, count - tried, sent.len());
            match server.node.open(time) {
                Ok(wire) => sent.extend(self.send(place, server, slot, wire)),
                Err(error) => {
                    // In less time even a good one may not be opened.
                    if !error.is_timeout() || time >= BRIEFLY {
                        self.questions[place].connections.suspicion.unanswered();
                    }
                    self.failed(place, server, error, InVain::default());
                }
            }
        }
        sent
    }

    fn send<'s>(
        &mut self,
        place: usize,
        server: &'s Server,
        slot: Slot<'s>,
        mut wire: Wire,
    ) -> Option<Exchange<'s>> {
        let packed = self.questions[place].call.by_hash(wire.publish());
        let asked = Moment::now();
        wire.give(self.until.left());
        if let Err(error) = wire.send(&packed) {
            // What follows half a request would be taken for the rest of it.
            self.failed(place, server, error, InVain::of(None));
            return None;
        }
        Some(Exchange {
            place,
            server,
            slot,
            wire,
            asked,
            by_source: false,
            torn: false,
        })
    }

    /// Reads what comes until all have answered, or enough have and the others had their time, or it is
    /// over for all.
    fn receive_all(&mut self, open: &mut Vec<Exchange<'_>>) {
        let mut look = FIRST_LOOK;
        let mut settled = None;
        while !open.is_empty() {
            let mut still_open = Vec::with_capacity(open.len());
            for mut exchange in open.drain(..) {
                match exchange.receive(&self.questions[exchange.place].call, look) {
                    Some(reply) => self.replied(exchange, reply),
                    None => still_open.push(exchange),
                }
            }
            *open = still_open;
            let mut until = self.until;
            if settled.is_none() && self.is_settled() {
                settled = Some(Moment::now());
            }
            if let Some(settled) = settled {
                let graces = open.iter().map(|exchange| {
                    let connections = self.questions[exchange.place].connections;
                    connections.suspicion.grace(connections.command_timeout / 4)
                });
                let grace = graces.max().unwrap_or_default();
                until = until.min(settled.after(settled.since(self.began).max(grace)));
            }
            if until.is_past() {
                return;
            }
            look = (look * 2).min(LONGEST_LOOK);
        }
    }

    /// Whether it is known by now if enough answers are good.
    fn is_settled(&self) -> bool {
        let Enough { needed, is_good } = self.enough;
        let (mut good, mut bad) = (0, 0);
        for outcome in self.outcomes.iter().flatten() {
            match outcome {
                Ok(answer) if is_good(&answer.reply) => good += 1,
                _ => bad += 1,
            }
        }
        good >= needed || bad + needed > self.questions.len()
    }

    fn replied(&mut self, exchange: Exchange<'_>, reply: RedisResult<Value>) {
        let Exchange {
            place,
            server,
            mut slot,
            wire,
            asked,
            torn,
            ..
        } = exchange;
        let took = Moment::now().since(asked);
        let question = &self.questions[place];
        let error = match reply {
            Ok(reply) => {
                slot.put(wire);
                question.connections.suspicion.answered(took);
                self.outcomes[place] = Some(Ok(Answer {
                    reply,
                    asked,
                    unreplicated: None,
                    in_vain: InVain::default(),
                }));
                return;
            }
            Err(error) => error,
        };
        if !Advice::is_reply(&error) {
            let wire = Some(wire).filter(|wire| !torn && !wire.is_answered());
            self.failed(place, server, error, InVain::of(wire));
            return;
        }
        question.connections.suspicion.answered(took);
        let advice = Advice::on(&error);
        if advice.keeps_connection() {
            slot.put(wire);
        }
        if advice == Advice::Redirect {
            // For the next time.
            let topology = &question.connections.topology;
            drop(topology.redirect(question.lock, server, &error));
        }
        self.failed(place, server, error, InVain::default());
    }

    /// No clear answer, and what the failure says of its server.
    fn failed(&mut self, place: usize, server: &Server, error: RedisError, in_vain: InVain) {
        // Where nothing was sent, the connection could not be opened, or a reply is the error.
        server.failed(&error, in_vain.is_ambiguous());
        let Question {
            connections, lock, ..
        } = &self.questions[place];
        let error = if Advice::on(&error).asks_again() {
            let cause: Cause = if error.is_timeout() {
                silence(&error).into()
            } else {
                Box::new(error)
            };
            connections.unavailable(lock, self.patience, cause)
        } else {
            connections.refusal(lock, error)
        };
        self.settle(place, Err(NoAnswer { error, in_vain }));
    }

    /// Not asked at all.
    fn fail(&mut self, place: usize, cause: Cause) {
        let Question {
            connections, lock, ..
        } = &self.questions[place];
        let error = connections.unavailable(lock, self.patience, cause);
        self.settle(place, Err(error.into()));
    }

    fn settle(&mut self, place: usize, outcome: Result<Answer, NoAnswer>) {
        self.outcomes[place] = Some(outcome);
    }

    /// What is open still is in vain.
    fn finish(mut self, open: Vec<Exchange<'_>>) -> Vec<Result<Answer, NoAnswer>> {
        for Exchange { place, wire, .. } in open {
            let Question {
                connections, lock, ..
            } = &self.questions[place];
            connections.suspicion.unanswered();
            let error = connections.unavailable(lock, self.patience, "no reply in time".into());
            let in_vain = InVain::of(Some(wire).filter(|wire| !wire.is_answered()));
            self.settle(place, Err(NoAnswer { error, in_vain }));
        }
        let unasked = "it was not asked";
        let questions = self.questions;
        let patience = self.patience;
        let outcomes = self.outcomes.into_iter().zip(questions);
        outcomes
            .map(
                |(
                    outcome,
                    Question {
                        connections, lock, ..
                    },
                )| {
                    outcome.unwrap_or_else(|| {
                        Err(connections
                            .unavailable(lock, patience, unasked.into())
                            .into())
                    })
                },
            )
            .collect()
    }
}
