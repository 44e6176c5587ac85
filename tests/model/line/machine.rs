//! What is checked, and the possible steps.

use stateright::{Model, Property};

use super::promises;
use super::state::{Holder, Late, Phase, State, Subscription};

/// What is checked, and how many failures occur.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub planted: Option<Planted>,
    pub clients: usize,
    pub has_java: bool,
    /// A place has a channel for its lock, so a client unsubscribes when its wait has ended.
    pub has_lock_channels: bool,
    /// The number of failures, each of any kind.
    pub faults: u8,
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
    /// A place is removed when it is called.
    DroppedAtCall,
    /// The first place leaves a free lock, and does not call the next one.
    LeavesSilently,
    /// The first place leaves a lock of Java, and does not call the next one.
    LeavesJavaSilently,
    /// A client that is called and does not wait removes its place whatever its state.
    OnlyIfCalledIgnored,
    /// A client that is called and does not wait keeps its place.
    CallIgnored,
    /// A message that arrives during the last request of a wait has no effect.
    LastCallIgnored,
    /// A client that is called and does not wait keeps its place if the lock has a holder again.
    LeavesOnlyIfFree,
    /// A mark has no end.
    ReservedWithoutEnd,
    /// A granted request removes the old mark of another place, and leaves that place.
    OldPlaceKept,
    /// A thread does not ask again when its subscription is confirmed.
    NotAskedAfterConfirmation,
    /// A thread decides once whether it listens to Java.
    RankStale,
    /// A message that arrives during a request is forgotten when the reply arrives.
    MessageForgotten,
    /// A waiting client takes a lock that is reserved for another one.
    Barges,
}

impl Bounds {
    pub fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}

/// The number is the index of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A thread starts to wait.
    Wait(usize),
    /// A thread asks once, because it does not wait.
    Try(usize),
    /// The timer of a waiting thread ends.
    Poll(usize),
    /// The deadline of a wait passes.
    GiveUp(usize),
    Interrupt(usize),
    Unlock(usize),
    JavaTakes,
    JavaReleases,
    /// The lease ends of a client that does not renew it.
    EndLease,
    /// The reserved time of a mark ends, and timers of waiting threads.
    Time,
    /// The server executes the request of a waiting thread that was woken.
    Ask(usize),
    /// The thread reads the reply.
    Receive(usize),
    /// The server executes the `line_leave` that a called client sent which did not wait.
    RunLeaveIfCalled(usize),
    /// A client releases what a late copy has acquired.
    ReleaseOrphan(usize),
    /// A place's channel is subscribed, and the thread receives the confirmation.
    Subscribe(usize),
    Deliver(usize),
    Unsubscribe(usize),
    /// The server executes a copy whose reply nothing awaits.
    RunLate(usize, Late),
    Kill(usize),
    Vanish(usize),
    Stop(usize),
    Continue(usize),
    /// A subscriber connection breaks. The server knows it, or counts the receiver until the client
    /// subscribes again.
    Break(usize, bool),
    /// The reply to an executed request is lost.
    LoseReply(usize),
    /// A request of a thread is late: one that waits, or one that gives up.
    Delay(usize, bool),
    /// The thread is interrupted, and its `line_leave` is late.
    DelayLeave(usize),
    DeleteLine,
    /// The subscriptions end. The key of the line is lost, or it stays.
    Move(bool),
}

impl State {
    /// The steps that need no timer and no decision.
    pub fn urgent(&self, steps: &mut Vec<Step>) {
        for (c, client) in self.clients.iter().enumerate() {
            if client.leaves_if_called {
                steps.push(Step::RunLeaveIfCalled(c));
            }
            if !client.responds() {
                continue;
            }
            match client.phase {
                Phase::Asked { .. } => steps.push(Step::Receive(c)),
                Phase::Sleeps if client.woken => steps.push(Step::Ask(c)),
                _ => {}
            }
            if client.subscription == Subscription::Sent {
                steps.push(Step::Subscribe(c));
            }
            if client.call {
                steps.push(Step::Deliver(c));
            }
            if self.holder == Some(Holder::Orphan(c as u8)) {
                steps.push(Step::ReleaseOrphan(c));
            }
        }
    }

    pub fn is_quiet(&self) -> bool {
        let mut steps = Vec::new();
        self.urgent(&mut steps);
        steps.is_empty()
    }

    fn faults(&self, steps: &mut Vec<Step>) {
        for (c, client) in self.clients.iter().enumerate() {
            if client.phase == Phase::Gone {
                continue;
            }
            steps.extend([Step::Kill(c), Step::Vanish(c)]);
            if !client.stopped {
                steps.push(Step::Stop(c));
            }
            if client.subscription != Subscription::Off {
                steps.extend([Step::Break(c, false), Step::Break(c, true)]);
            }
            match client.phase {
                Phase::Asked { .. } => steps.push(Step::LoseReply(c)),
                Phase::Sleeps if client.responds() => {
                    steps.extend([Step::Delay(c, true), Step::Delay(c, false)]);
                    steps.push(Step::DelayLeave(c));
                }
                _ => {}
            }
        }
        if !self.line.is_empty() {
            steps.push(Step::DeleteLine);
        }
        steps.extend([Step::Move(false), Step::Move(true)]);
        if self.holder == Some(Holder::Java) {
            steps.push(Step::EndLease);
        }
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.broken.is_some() {
            return;
        }
        state.urgent(steps);
        if steps.is_empty() {
            steps.push(Step::Time);
        }
        for (c, client) in state.clients.iter().enumerate() {
            steps.extend(client.late.iter().map(|late| Step::RunLate(c, *late)));
            if client.stopped {
                steps.push(Step::Continue(c));
            }
            if !client.responds() {
                continue;
            }
            let is_subscribed = client.subscription == Subscription::On;
            if self.has_lock_channels && is_subscribed && !client.waits() {
                steps.push(Step::Unsubscribe(c));
            }
            match client.phase {
                Phase::Idle => steps.extend([Step::Wait(c), Step::Try(c)]),
                Phase::Sleeps => {
                    steps.extend([Step::GiveUp(c), Step::Interrupt(c)]);
                    if !client.woken {
                        steps.push(Step::Poll(c));
                    }
                }
                Phase::Holds => steps.push(Step::Unlock(c)),
                _ => {}
            }
        }
        match state.holder {
            None if self.has_java => steps.push(Step::JavaTakes),
            None => {}
            Some(Holder::Java) => steps.push(Step::JavaReleases),
            Some(Holder::Ours(c) | Holder::Orphan(c)) => {
                let is_held = state.clients[c as usize].responds();
                steps.extend((!is_held).then_some(Step::EndLease));
            }
        }
        if state.faults > 0 {
            state.faults(steps);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Wait(c) | Step::Poll(c) => next.wake(c),
            Step::Try(c) | Step::GiveUp(c) => next.ask(c, false, false, self),
            Step::Ask(c) => next.ask(c, true, false, self),
            Step::Interrupt(c) => next.interrupt(c, false, self),
            Step::Unlock(c) => next.unlock(c, self),
            Step::JavaTakes => next.java_takes(),
            Step::JavaReleases => next.java_releases(),
            Step::EndLease => next.end_lease(),
            Step::Time => next.time(self),
            Step::Receive(c) => next.receive(c, self),
            Step::RunLeaveIfCalled(c) => next.run_leave_if_called(c, self),
            Step::ReleaseOrphan(_) => next.release(self),
            Step::Subscribe(c) => next.subscribe(c, self),
            Step::Deliver(c) => next.deliver(c, self),
            Step::Unsubscribe(c) => next.unsubscribe(c),
            Step::RunLate(c, late) => next.run_late(c, late, self),
            Step::Continue(c) => next.go_on(c),
            fault => {
                next.faults -= 1;
                next.polls = 0;
                match fault {
                    Step::Kill(c) => next.kill(c, false),
                    Step::Vanish(c) => next.kill(c, true),
                    Step::Stop(c) => next.clients[c].stopped = true,
                    Step::Break(c, counted) => next.break_connection(c, counted),
                    Step::LoseReply(c) => next.lose_reply(c),
                    Step::Delay(c, waits) => next.ask(c, waits, true, self),
                    Step::DelayLeave(c) => next.interrupt(c, true, self),
                    Step::DeleteLine => next.delete_line(),
                    Step::Move(lost) => next.move_slot(lost),
                    _ => unreachable!(),
                }
            }
        }
        next.normalize();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all()
    }
}
