//! The possible steps from a state, and their results.

use stateright::{Model, Property};

use super::promises::{self, MISSED, SWALLOWED};
use super::redis::{Command, Owner, Reply, Waiter};
use super::state::{LateCopy, Op, Phase, Planted, Protocol, State, Why};

/// The first number is the index of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Acquire(usize),
    /// Begins what it does with the lock.
    Begin(usize),
    /// Redis executes its request, and replies.
    Run(usize),
    /// Redis executes its request, and the reply is lost. The thread sends it again.
    LoseReply(usize),
    /// Its request is executed later, or never. The thread sends it again.
    Delay(usize),
    /// It does not send its request again.
    GiveUp(usize),
    /// It releases the lock, at the end of its step or to wait.
    Release(usize),
    /// It gives the lock to another thread of its client instead.
    HandOver(usize, usize),
    /// It learns that it need not wait any more.
    Hear(usize),
    TimeOut(usize),
    /// It cannot acquire the lock again.
    Fail(usize),
    /// The client dies.
    Die(usize),
    /// The lease of a dead client ends.
    EndLease,
    /// The place with this index is over: no thread renews it.
    EndPlace(usize),
    /// A waiting thread renews its place.
    Renew(usize),
    /// Redis executes the late copy with this index.
    RunLate(usize),
}

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

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let may_fail = state.failures > 0;
        for (t, thread) in state.threads.iter().enumerate() {
            if state.redis.lock.is_none() && self.wants_the_lock(state, t) {
                steps.push(Step::Acquire(t));
            }
            if self.request(state, t).is_some() {
                let released_first = self.has(Planted::ReleasedFirst);
                if released_first && matches!(thread.phase, Phase::Beginning(_)) {
                    steps.push(Step::Release(t));
                    continue;
                }
                steps.push(Step::Run(t));
                if may_fail {
                    steps.extend([Step::LoseReply(t), Step::Delay(t)]);
                }
                if thread.is_ambiguous {
                    steps.push(Step::GiveUp(t));
                }
            }
            match thread.phase {
                Phase::Held(_) => steps.push(Step::Begin(t)),
                Phase::InQueue(_) | Phase::Unlocking(_) => {
                    steps.push(Step::Release(t));
                    let others = (0..state.threads.len()).filter(|&other| {
                        self.client(other) == self.client(t) && self.wants_the_lock(state, other)
                    });
                    steps.extend(others.map(|other| Step::HandOver(t, other)));
                }
                Phase::Waiting => {
                    if !state.redis.waits(state.waiter(t)) {
                        steps.push(Step::Hear(t));
                    }
                    steps.extend([Step::TimeOut(t), Step::Renew(t)]);
                }
                Phase::Woken(_) => {
                    steps.push(Step::Renew(t));
                    if may_fail {
                        steps.push(Step::Fail(t));
                    }
                }
                _ => {}
            }
            if state.deaths > 0 && thread.phase != Phase::Dead {
                steps.push(Step::Die(self.client(t)));
            }
        }
        for (at, place) in state.redis.places.iter().enumerate() {
            if !place.is_over && !state.is_in_wait(place.waiter) {
                steps.push(Step::EndPlace(at));
            }
        }
        let is_dead = |owner: Owner| {
            let mut threads = (0..state.threads.len()).filter(|&t| self.client(t) == owner.client);
            threads.all(|t| state.threads[t].phase == Phase::Dead)
        };
        if state.redis.lock.is_some_and(is_dead) {
            steps.push(Step::EndLease);
        }
        steps.extend((0..state.late.len()).map(Step::RunLate));
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Acquire(t) => {
                next.grants += 1;
                let owner = Owner {
                    client: self.client(t),
                    grant: next.grants,
                };
                next.redis.lock = Some(owner);
                self.acquired(&mut next, t, owner);
            }
            Step::Begin(t) => {
                let Phase::Held(owner) = next.threads[t].phase else {
                    return None;
                };
                next.threads[t].phase = match self.op(state, t)? {
                    Op::Wait => {
                        next.threads[t].waits += 1;
                        Phase::Beginning(owner)
                    }
                    Op::NotifyOne | Op::NotifyAll => {
                        next.calls += 1;
                        Phase::Notifying(owner, next.calls)
                    }
                };
            }
            Step::Run(t) => {
                let reply = self.run(&mut next, self.request(state, t)?);
                self.replied(&mut next, t, reply);
            }
            Step::LoseReply(t) => {
                next.failures -= 1;
                next.threads[t].is_ambiguous = true;
                self.run(&mut next, self.request(state, t)?);
            }
            Step::Delay(t) => {
                next.failures -= 1;
                next.threads[t].is_ambiguous = true;
                let command = self.request(state, t)?;
                let behind = None;
                next.late.push(LateCopy { command, behind });
            }
            Step::GiveUp(t) => self.give_up(&mut next, t),
            Step::Release(t) => {
                next.redis.lock = None;
                self.released(&mut next, t);
            }
            Step::HandOver(t, other) => {
                let owner = next.redis.lock?;
                self.released(&mut next, t);
                self.acquired(&mut next, other, owner);
            }
            Step::Hear(t) => next.threads[t].phase = Phase::Woken(Why::Notified),
            Step::TimeOut(t) => {
                next.threads[t].phase = Phase::Woken(Why::Time);
                if self.has(Planted::EndedEarly) {
                    // Its time is over, so it reports that.
                    let waiter = next.waiter(t);
                    let passes = false;
                    self.run(&mut next, Command::End { waiter, passes });
                    if next.redis.taken.contains(&waiter) {
                        next.broken = Some(SWALLOWED);
                    }
                }
            }
            Step::Fail(t) => {
                next.failures -= 1;
                next.threads[t].phase = Phase::Leaving;
            }
            Step::Die(client) => {
                next.deaths -= 1;
                for t in (0..next.threads.len()).filter(|&t| self.client(t) == client) {
                    next.threads[t].phase = Phase::Dead;
                    next.threads[t].is_ambiguous = false;
                    drop_late_takes(&mut next, state.waiter(t));
                }
            }
            Step::EndLease => next.redis.lock = None,
            Step::EndPlace(at) => next.redis.places[at].is_over = true,
            Step::Renew(_) => {
                self.run(&mut next, Command::Renew);
            }
            Step::RunLate(at) => {
                let LateCopy { command, behind } = next.late.remove(at);
                self.run(&mut next, command);
                if let Some(behind) = behind {
                    self.run(&mut next, behind);
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all()
    }
}
