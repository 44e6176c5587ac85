//! A model of a link: a connection that the threads of a client share. Requests are answered in
//! their order, so the link is what the server has not executed, the replies on their way, and the
//! queue of what the client awaits. One of the waiting threads reads, and gives each reply to its
//! thread.
//!
//! Each thread locks and unlocks one lock, under an owner id for each call. A request whose
//! deadline passes is abandoned: it stays in the queue, and its late reply arrives in its turn, or
//! never because the link breaks. The server may still execute what a broken link has carried, at
//! any later time. The client settles each abandoned copy: by its late reply, or by a release that
//! is sent at any time. The release is executed after a copy on the same link. After a copy on a
//! broken link it may be executed too early; then the lease of the copy ends it.
//!
//! Time advances in ticks, the same for the client and for Redis. Renewals are not modelled: the
//! watchdog has a link of its own.

mod state;

use state::{MATCHED, State, Thread};

use crate::check::{Model, Promises, Step, breaks, keeps, with};
use crate::redis::Script;

const OWNER: &str = "a hold ends before its lease ends in Redis";
const EXCLUSIVE: &str = "two holds are never valid at once";
const AWAITED: &str = "no thread waits for a reply that has been taken, or that cannot arrive";
const READ: &str = "while a thread waits, one of those that wait reads";
const SETTLED: &str = "an abandoned grant is released, or was executed after its link broke";

/// What is checked, and how many failures occur.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub planted: Option<Planted>,
    pub threads: usize,
    /// In ticks.
    pub lease: u8,
    /// The number of requests whose deadline passes before the reply.
    pub unanswered: u8,
    /// How often the link breaks.
    pub breaks: u8,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// An abandoned request leaves the queue of what is awaited.
    EntryDropped,
    /// What a broken link awaited stays in the queue of the next one.
    QueueKept,
    /// A copy that is abandoned is not settled.
    NotSettled,
    /// A late reply that says "granted" settles its copy, as one that says "refused" does.
    LateGrantIgnored,
    /// The release of an abandoned copy is sent on another connection.
    ReleaseOvertakes,
    /// A release that got no reply because its link broke is not sent again.
    ReleaseNotRepeated,
    /// A thread that leaves at its deadline does not give the reading to another one.
    ReadingKept,
    /// The thread that reads does not wake the thread whose reply it has taken.
    NotWoken,
    /// A lease is measured from the reply.
    LeaseFromReply,
}

impl Bounds {
    pub fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}

impl Model for Bounds {
    type State = State;

    fn start(&self) -> State {
        State::new(self)
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        for (t, thread) in state.threads.iter().enumerate() {
            match thread {
                Thread::Idle => step(&("locks", t), &|next| next.lock(t)),
                Thread::Holding { .. } => step(&("unlocks", t), &|next| next.unlock(t)),
                Thread::Waiting(wait) if wait.reply.is_some() => {
                    step(&("gets its reply", t), &|next| next.go_on(t, self));
                }
                Thread::Waiting(_) if state.unanswered > 0 => {
                    step(&("deadline passes", t), &|next| next.abandon(t, self));
                }
                Thread::Waiting(_) => {}
            }
        }
        if !state.link.sent.is_empty() {
            step(&"runs", &State::execute);
        }
        if state.can_read() {
            for replies in 1..=state.link.replies.len() {
                // Each is given to what awaits it.
                step(&("reads replies", replies), &|next| {
                    next.read(replies, self);
                });
            }
        }
        for at in 0..state.abandoned.len() {
            step(&("releases abandoned", at), &|next| next.settle(at, self));
        }
        if state.breaks > 0 && !state.link.awaited.is_empty() {
            step(&"the link breaks", &|next| next.break_link(self));
        }
        for at in 0..state.broken_links.len() {
            step(&("runs of a broken link", at), &|next| next.execute_old(at));
        }
        step(&"time passes", &State::tick);
    }

    fn normalize(&self, state: &mut State) {
        state.normalize();
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        let link = &state.link;
        let owns = |id| state.key.is_some_and(|key| key.id == id);
        promises.always(OWNER, holds(state).all(owns));
        promises.always(EXCLUSIVE, holds(state).count() <= 1);
        promises.of_step(state.broken);
        let is_awaited = |thread| link.awaited.iter().any(|one| one.thread == Some(thread));
        promises.always(
            AWAITED,
            link.awaited.len() == link.sent.len() + link.replies.len()
                && waiting(state).all(is_awaited),
        );
        let is_read = match link.reader {
            Some(reader) => waiting(state).any(|thread| thread == reader),
            None => !state.is_waited_for(),
        };
        promises.always(READ, is_read);
        let is_settled = state.key.is_none_or(|key| {
            let is_of = |thread: &Thread| thread.id() == Some(key.id);
            key.by_old || state.threads.iter().any(is_of) || is_being_settled(state, key.id)
        });
        promises.always(SETTLED, is_settled);
        if self.unanswered > 0 {
            let first = link.awaited.front().zip(link.replies.front());
            let is_late = first.is_some_and(|(one, reply)| {
                one.thread.is_none() && one.request.script == Script::Acquire && reply.is_done
            });
            promises.sometimes(
                "the late reply to an abandoned acquire says \"granted\"",
                is_late,
            );
            let mut sent = link.sent.iter();
            let is_behind = sent
                .find(|request| request.script == Script::Acquire)
                .is_some_and(|acquire| {
                    sent.any(|one| one.id == acquire.id && one.script == Script::Release)
                });
            promises.sometimes(
                "a release is behind an acquire that is not executed",
                is_behind,
            );
        }
        if self.breaks > 0 {
            let is_overtaken = state
                .key
                .is_some_and(|key| key.by_old && !is_being_settled(state, key.id));
            promises.sometimes(
                "a copy is executed after its link broke, and after its release",
                is_overtaken,
            );
        }
    }
}

fn holds(state: &State) -> impl Iterator<Item = u8> {
    state.threads.iter().filter_map(|thread| match thread {
        Thread::Holding { id, .. } => Some(*id),
        _ => None,
    })
}

/// The threads for which no reply was read.
fn waiting(state: &State) -> impl Iterator<Item = u8> {
    let threads = (0..).zip(&state.threads);
    threads.filter_map(|(number, thread)| thread.awaits_reply().then_some(number))
}

/// True if the client has to settle the copy, or its release will be executed unless the link
/// breaks.
fn is_being_settled(state: &State, id: u8) -> bool {
    let mut sent = state.link.sent.iter();
    state.abandoned.contains(&id)
        || sent.any(|request| request.id == id && request.script == Script::Release)
}

/// This number of threads, of requests whose deadline passes, and of times that the link breaks.
fn library(threads: usize, unanswered: u8, breaks: u8) -> Bounds {
    Bounds {
        planted: None,
        threads,
        lease: 2,
        unanswered,
        breaks,
    }
}

#[test]
fn a_failure_breaks_no_promise() {
    keeps(library(2, 1, 0));
    keeps(library(2, 0, 1));
    keeps(library(1, 1, 1));
}

#[test]
#[ignore = "soak"]
fn several_failures_break_no_promise() {
    keeps(library(2, 2, 0));
    keeps(library(1, 2, 1));
    keeps(library(3, 1, 0));
}

#[test]
fn each_rule_is_needed() {
    for (planted, unanswered, broken, promise) in [
        (Planted::EntryDropped, 1, 0, MATCHED),
        (Planted::QueueKept, 0, 1, MATCHED),
        (Planted::QueueKept, 0, 1, AWAITED),
        (Planted::NotSettled, 1, 0, SETTLED),
        (Planted::LateGrantIgnored, 1, 0, SETTLED),
        (Planted::ReleaseOvertakes, 1, 0, SETTLED),
        (Planted::ReleaseNotRepeated, 1, 1, SETTLED),
        (Planted::ReadingKept, 1, 0, READ),
        (Planted::NotWoken, 0, 0, AWAITED),
        (Planted::LeaseFromReply, 0, 0, OWNER),
    ] {
        let bounds = library(2, unanswered, broken);
        breaks(with(bounds, |it| it.planted = Some(planted)), promise);
    }
}
