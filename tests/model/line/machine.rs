//! What is checked, and the possible steps.

use stateright::{Model, Property};

use super::promises;
use super::state::{Late, Owner, Phase, Role, State, Subscription};

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

/// The number is the index of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A thread starts to wait.
    Wait(usize, Role),
    /// A thread asks once, because it does not wait.
    Try(usize, Role),
    /// The timer of a waiting thread ends.
    Poll(usize),
    /// The deadline of a wait passes.
    GiveUp(usize),
    Interrupt(usize),
    /// A writer acquires the read lock, too.
    ReadToo(usize),
    Unlock(usize, Role),
    JavaTakes(Role),
    JavaReleases(Role),
    /// The lease ends of an owner that does not renew it.
    EndLease(Role, Owner),
    /// The reserved time of a mark ends, and timers of waiting threads.
    Time,
    /// The server executes the request of a waiting thread that was woken.
    Ask(usize),
    /// The thread reads the reply.
    Receive(usize),
    /// The server executes the `line_leave` that a called client sent which did not wait.
    RunLeaveIfCalled(usize),
    /// A client releases what a late copy has acquired.
    ReleaseOrphan(Role, Owner),
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
    fn owners(&self) -> impl Iterator<Item = (Role, Owner)> {
        let writers = self.writer.iter().map(|owner| (Role::Writer, *owner));
        writers.chain(self.readers.iter().map(|owner| (Role::Reader, *owner)))
    }

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
        }
        for (role, owner) in self.owners() {
            if matches!(owner, Owner::Orphan(c) if self.clients[c as usize].responds()) {
                steps.push(Step::ReleaseOrphan(role, owner));
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
        let of_java = self.owners().filter(|(_, owner)| *owner == Owner::Java);
        steps.extend(of_java.map(|(role, owner)| Step::EndLease(role, owner)));
    }

    fn holder_steps(&self, c: usize, bounds: &Bounds, steps: &mut Vec<Step>) {
        for (role, owner) in self.owners() {
            if owner == Owner::Ours(c as u8) {
                steps.push(Step::Unlock(c, role));
            }
        }
        let writes = self.writer == Some(Owner::Ours(c as u8));
        if bounds.has_downgrades && writes && self.readers.is_empty() {
            steps.push(Step::ReadToo(c));
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
                Phase::Idle => {
                    for role in client.roles {
                        steps.extend([Step::Wait(c, *role), Step::Try(c, *role)]);
                    }
                }
                Phase::Sleeps => {
                    steps.extend([Step::GiveUp(c), Step::Interrupt(c)]);
                    if !client.woken {
                        steps.push(Step::Poll(c));
                    }
                }
                Phase::Holds => state.holder_steps(c, self, steps),
                _ => {}
            }
        }
        for (role, owner) in state.owners() {
            match owner {
                Owner::Java => steps.push(Step::JavaReleases(role)),
                Owner::Ours(c) | Owner::Orphan(c) if !state.clients[c as usize].responds() => {
                    steps.push(Step::EndLease(role, owner));
                }
                _ => {}
            }
        }
        for role in self.java {
            let is_open = match role {
                Role::Writer => state.is_free(),
                Role::Reader => state.writer.is_none() && !state.has_java(),
            };
            steps.extend(is_open.then_some(Step::JavaTakes(*role)));
        }
        if state.faults > 0 {
            state.faults(steps);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Wait(c, role) => next.begin(c, role),
            Step::Poll(c) => next.wake(c),
            Step::Try(c, role) => {
                next.clients[c].role = role;
                next.ask(c, false, false, self);
            }
            Step::GiveUp(c) => next.ask(c, false, false, self),
            Step::Ask(c) => next.ask(c, true, false, self),
            Step::Interrupt(c) => next.interrupt(c, false, self),
            Step::ReadToo(c) => next.readers.push(Owner::Ours(c as u8)),
            Step::Unlock(c, role) => next.unlock(c, role, self),
            Step::JavaTakes(role) => next.java_takes(role),
            Step::JavaReleases(role) => next.java_releases(role),
            Step::EndLease(role, owner) => next.end_lease(role, owner),
            Step::Time => next.time(self),
            Step::Receive(c) => next.receive(c, self),
            Step::RunLeaveIfCalled(c) => next.run_leave_if_called(c, self),
            Step::ReleaseOrphan(role, owner) => next.release(role, owner, self),
            Step::Subscribe(c) => next.subscribe(c, self),
            Step::Deliver(c) => next.deliver(c, self),
            Step::Unsubscribe(c) => next.unsubscribe(c),
            Step::RunLate(c, late) => next.run_late(c, late, self),
            Step::Continue(c) => next.go_on(c),
            fault => {
                next.faults -= 1;
                next.polls = 0;
                match fault {
                    Step::Kill(c) => next.clients[c].end(false),
                    Step::Vanish(c) => next.clients[c].end(true),
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
