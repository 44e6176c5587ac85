//! The possible steps from a state, and their results.

use super::redis::{Command, Owner, Reply, Waiter};
use super::state::{LateCopy, Op, Phase, Planted, Protocol, State, Why};
use crate::check::{Model, Promises, Step};

pub const SWALLOWED: &str = "a wait that took a notification reports it";
pub const MISSED: &str = "a notification is not missed by a thread that has released the lock";

impl Protocol {
    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn op(&self, state: &State, thread: usize) -> Option<Op> {
        let (_, ops) = &self.threads[thread];
        ops.get(state.threads[thread].done).copied()
    }

    fn client(&self, thread: usize) -> usize {
        self.threads[thread].0
    }

    fn wants_the_lock(&self, state: &State, thread: usize) -> bool {
        match state.threads[thread].phase {
            Phase::Ready => self.op(state, thread).is_some(),
            Phase::Woken(_) => true,
            _ => false,
        }
    }

    /// The request of a thread that is under way.
    fn request(&self, state: &State, thread: usize) -> Option<Command> {
        let waiter = state.waiter(thread);
        Some(match state.threads[thread].phase {
            Phase::Beginning(owner) | Phase::Late(owner) => Command::Wait(owner, waiter),
            Phase::Notifying(owner, call) => Command::Notify {
                owner,
                call,
                all: self.op(state, thread) == Some(Op::NotifyAll),
            },
            Phase::Ending(..) => Command::End {
                waiter,
                passes: false,
            },
            Phase::Leaving => Command::End {
                waiter,
                passes: !self.has(Planted::TakenOnFailure),
            },
            _ => return None,
        })
    }

    fn run(&self, state: &mut State, command: Command) -> Reply {
        let before = state.clone();
        let lives = |waiter| before.is_in_wait(waiter);
        let reply = state.redis.run(command, self.planted, lives);
        if let Command::Notify { call, .. } = command
            && state.redis.notified_by[call as usize] == 0
            && before
                .threads
                .iter()
                .any(|thread| matches!(thread.phase, Phase::Late(_)))
        {
            state.broken = Some(MISSED);
        }
        reply
    }

    /// The thread has the lock.
    fn acquired(&self, state: &mut State, thread: usize, owner: Owner) {
        let phase = &mut state.threads[thread].phase;
        *phase = match *phase {
            Phase::Woken(_) if self.has(Planted::EndedEarly) => Phase::Unlocking(owner),
            Phase::Woken(why) => Phase::Ending(owner, why),
            _ => Phase::Held(owner),
        };
    }

    /// The lock has left the thread.
    fn released(&self, state: &mut State, t: usize) {
        let thread = &mut state.threads[t];
        thread.phase = match thread.phase {
            Phase::InQueue(_) => Phase::Waiting,
            Phase::Beginning(owner) => Phase::Late(owner),
            _ => {
                thread.done += 1;
                Phase::Ready
            }
        };
    }

    /// The thread has the reply to its request.
    fn replied(&self, state: &mut State, t: usize, reply: Reply) {
        let waiter = state.waiter(t);
        let thread = &mut state.threads[t];
        let was_ambiguous = std::mem::take(&mut thread.is_ambiguous);
        match thread.phase {
            Phase::Beginning(owner) => thread.phase = Phase::InQueue(owner),
            Phase::Late(_) => thread.phase = Phase::Waiting,
            Phase::Notifying(owner, _) => thread.phase = Phase::Unlocking(owner),
            Phase::Ending(owner, why) => {
                thread.phase = Phase::Unlocking(owner);
                let reports_time = why == Why::Time
                    && (reply == Reply::NotNotified
                        || self.has(Planted::TimeBelieved)
                        || self.has(Planted::GoneBelieved) && was_ambiguous);
                if reports_time && state.redis.taken.contains(&waiter) {
                    state.broken = Some(SWALLOWED);
                }
                self.end_wait(state, t);
            }
            Phase::Leaving => {
                thread.phase = Phase::Ready;
                thread.done += 1;
                if state.redis.taken.contains(&waiter) {
                    state.broken = Some(SWALLOWED);
                }
                self.end_wait(state, t);
            }
            _ => {}
        }
    }

    /// Each late copy of the request that began the wait is followed by the end of the place.
    fn end_wait(&self, state: &mut State, thread: usize) {
        if self.has(Planted::CopiesLeft) {
            return;
        }
        let waiter = state.waiter(thread);
        for late in &mut state.late {
            if matches!(late.command, Command::Wait(_, of) if of == waiter) {
                let passes = true;
                late.behind = Some(Command::End { waiter, passes });
            }
        }
    }

    fn give_up(&self, state: &mut State, t: usize) {
        let request = self.request(state, t);
        let waiter = state.waiter(t);
        let behind = None;
        state.threads[t].is_ambiguous = false;
        match state.threads[t].phase {
            Phase::Beginning(owner) => {
                let passes = true;
                let command = Command::End { waiter, passes };
                state.late.push(LateCopy { command, behind });
                state.threads[t].phase = Phase::Unlocking(owner);
                self.end_wait(state, t);
            }
            Phase::Notifying(owner, _) => state.threads[t].phase = Phase::Unlocking(owner),
            Phase::Ending(owner, why) => {
                // It reports a notification.
                state.redis.report(waiter);
                drop_late_takes(state, waiter);
                let takes = self.has(Planted::OrphansTake);
                let passes = why == Why::Time && !takes;
                let command = Command::End { waiter, passes };
                state.late.push(LateCopy { command, behind });
                state.threads[t].phase = Phase::Unlocking(owner);
                self.end_wait(state, t);
            }
            Phase::Leaving => {
                let orphan = request.map(|command| LateCopy { command, behind });
                state.late.extend(orphan);
                state.threads[t].phase = Phase::Ready;
                state.threads[t].done += 1;
                self.end_wait(state, t);
            }
            _ => {}
        }
    }
}

/// Not promised: a copy of the end of a place that is executed after its thread has given up may
/// take a later notification.
fn drop_late_takes(state: &mut State, waiter: Waiter) {
    let passes = false;
    let take = Command::End { waiter, passes };
    state.late.retain(|late| late.command != take);
}

impl Protocol {
    fn new_grant(&self, state: &mut State, t: usize) {
        state.grants += 1;
        let owner = Owner {
            client: self.client(t),
            grant: state.grants,
        };
        state.redis.lock = Some(owner);
        self.acquired(state, t, owner);
    }

    /// Begins what a thread does with the lock.
    fn begin(&self, state: &mut State, t: usize, owner: Owner) {
        let op = self.op(state, t);
        state.threads[t].phase = if op == Some(Op::Wait) {
            state.threads[t].waits += 1;
            Phase::Beginning(owner)
        } else {
            state.calls += 1;
            Phase::Notifying(owner, state.calls)
        };
    }

    fn release(&self, state: &mut State, t: usize) {
        state.redis.lock = None;
        self.released(state, t);
    }

    /// A thread gives the lock to another one of its client.
    fn hand_over(&self, state: &mut State, t: usize, other: usize) {
        if let Some(owner) = state.redis.lock {
            self.released(state, t);
            self.acquired(state, other, owner);
        }
    }

    /// The time of a wait is over.
    fn time_out(&self, state: &mut State, t: usize) {
        state.threads[t].phase = Phase::Woken(Why::Time);
        if self.has(Planted::EndedEarly) {
            // It reports that its time is over.
            let waiter = state.waiter(t);
            let passes = false;
            self.run(state, Command::End { waiter, passes });
            if state.redis.taken.contains(&waiter) {
                state.broken = Some(SWALLOWED);
            }
        }
    }

    fn die(&self, state: &mut State, client: usize) {
        state.deaths -= 1;
        for t in (0..state.threads.len()).filter(|&t| self.client(t) == client) {
            state.threads[t].phase = Phase::Dead;
            state.threads[t].is_ambiguous = false;
            let waiter = state.waiter(t);
            drop_late_takes(state, waiter);
        }
    }

    fn run_late(&self, state: &mut State, at: usize) {
        let LateCopy { command, behind } = state.late.remove(at);
        self.run(state, command);
        if let Some(behind) = behind {
            self.run(state, behind);
        }
    }

    /// What may become of the request of a thread.
    fn requests(&self, state: &State, t: usize, step: &mut Step<'_, State>) {
        let thread = &state.threads[t];
        let Some(command) = self.request(state, t) else {
            return;
        };
        if self.has(Planted::ReleasedFirst) && matches!(thread.phase, Phase::Beginning(_)) {
            step(&("releases", t), &|next| self.release(next, t));
            return;
        }
        step(&("request is executed", t), &|next| {
            let reply = self.run(next, command);
            self.replied(next, t, reply);
        });
        if state.failures > 0 {
            // The thread sends it again.
            step(&("reply is lost", t), &|next| {
                next.failures -= 1;
                next.threads[t].is_ambiguous = true;
                self.run(next, command);
            });
            step(&("request is late", t), &|next| {
                next.failures -= 1;
                next.threads[t].is_ambiguous = true;
                let behind = None;
                next.late.push(LateCopy { command, behind });
            });
        }
        if thread.is_ambiguous {
            step(&("gives up", t), &|next| self.give_up(next, t));
        }
    }
}

impl Model for Protocol {
    type State = State;

    fn start(&self) -> State {
        State::new(self)
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        let threads = 0..state.threads.len();
        for (t, thread) in state.threads.iter().enumerate() {
            if state.redis.lock.is_none() && self.wants_the_lock(state, t) {
                step(&("acquires", t), &|next| self.new_grant(next, t));
            }
            self.requests(state, t, step);
            match thread.phase {
                Phase::Held(owner) => {
                    step(&("begins", t), &|next| self.begin(next, t, owner));
                }
                Phase::InQueue(_) | Phase::Unlocking(_) => {
                    step(&("releases", t), &|next| self.release(next, t));
                    for other in threads.clone().filter(|&other| {
                        self.client(other) == self.client(t) && self.wants_the_lock(state, other)
                    }) {
                        step(&("hands over", t, other), &|next| {
                            self.hand_over(next, t, other);
                        });
                    }
                }
                Phase::Waiting => {
                    if !state.redis.waits(state.waiter(t)) {
                        step(&("need not wait", t), &|next| {
                            next.threads[t].phase = Phase::Woken(Why::Notified);
                        });
                    }
                    step(&("time is over", t), &|next| self.time_out(next, t));
                }
                Phase::Woken(_) if state.failures > 0 => {
                    step(&("cannot acquire again", t), &|next| {
                        next.failures -= 1;
                        next.threads[t].phase = Phase::Leaving;
                    });
                }
                _ => {}
            }
            if matches!(thread.phase, Phase::Waiting | Phase::Woken(_)) {
                step(&("renews its place", t), &|next| {
                    self.run(next, Command::Renew);
                });
            }
            if state.deaths > 0 && thread.phase != Phase::Dead {
                let client = self.client(t);
                step(&("client dies", client), &|next| self.die(next, client));
            }
        }
        for (at, place) in state.redis.places.iter().enumerate() {
            if !place.is_over && !state.is_in_wait(place.waiter) {
                let end = |next: &mut State| next.redis.places[at].is_over = true;
                step(&("place is over", at), &end);
            }
        }
        let is_dead = |owner: Owner| {
            let mut threads = threads.clone().filter(|&t| self.client(t) == owner.client);
            threads.all(|t| state.threads[t].phase == Phase::Dead)
        };
        if state.redis.lock.is_some_and(is_dead) {
            step(&"the lease of a dead client ends", &|next| {
                next.redis.lock = None;
            });
        }
        for at in 0..state.late.len() {
            step(&("runs late", at), &|next| self.run_late(next, at));
        }
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        super::check(self, state, promises);
    }
}
