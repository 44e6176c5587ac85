//! The workers, the commands under way, and the possible steps.

use stateright::{Model, Property};

use super::promises::{self, FALSE_LOSS, ONE, RELEASED, TAKEN_BACK};
use super::redis::{Command, Redis, Reply};
use crate::redis::{OwnerIds, Script};

/// What is checked, and how many failures occur.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub planted: Option<Planted>,
    pub workers: usize,
    pub permits: i8,
    /// In ticks.
    pub lease: u8,
    /// The number of commands whose reply does not arrive in time.
    pub unanswered: u8,
    /// How often a connection breaks that carried an unanswered copy of an acquire.
    pub breaks: u8,
    /// How often another program releases a permit.
    pub deletions: u8,
    pub crashes: u8,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// All copies of an acquire have one id.
    CopiesShareId,
    /// A copy of an acquire does not look for the permit of an older copy.
    CopyTakesAnother,
    /// Copies of an acquire that got no reply are not followed by a release.
    NotTakenBack,
    /// The release behind an older copy also names the id of the copy that was granted.
    GrantTakenBack,
    /// A release adds a permit without looking whether it is leased.
    ReleaseUnchecked,
    /// A renewal leases a permit that is not leased.
    RenewUnchecked,
    /// A renewal extends a permit whose lease has ended.
    ExpiredRenewed,
    /// Expired permits become available, and stay leased.
    ExpiredTwice,
    /// An acquire reads a clock that is a tick ahead, as that of another machine may be.
    OtherClock,
    /// A lease is measured from the reply.
    LeaseFromReply,
    /// The watchdog renews until the release is answered.
    RenewedAfterRelease,
}

impl Bounds {
    pub fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Late {
    pub worker: u8,
    /// The unanswered copy, unless it was executed.
    pub copy: Option<Command>,
    /// The ids that the release behind it names.
    pub behind: OwnerIds,
    /// The call that sent the copy still runs.
    pub open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    pub command: Command,
    /// Ticks since it was sent.
    pub age: u8,
    pub reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    pub id: u8,
    /// Ticks until it ends in the process.
    pub left: u8,
    /// Ticks since another program released the permit.
    pub gone: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Worker {
    pub call: Option<Call>,
    pub hold: Option<Hold>,
    /// The renewal of the watchdog. A reply is set if the permit is gone.
    pub renewal: Option<Call>,
    /// What the watchdog releases in the background.
    pub orphans: OwnerIds,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub redis: Redis,
    pub workers: Vec<Worker>,
    pub late: Vec<Late>,
    pub unanswered: u8,
    pub breaks: u8,
    pub deletions: u8,
    pub crashes: u8,
    /// A promise that a step has broken.
    pub broken: Option<&'static str>,
}

/// The first number is the index of the worker, or of the late connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Tick,
    /// Another program releases the leased permit with this index.
    Delete(usize),
    Crash(usize),
    Acquire(usize),
    Release(usize),
    /// Redis runs the command of the call.
    Run(usize),
    Receive(usize),
    Retry(usize),
    GiveUp(usize),
    Renew(usize),
    RunRenewal(usize),
    ReceiveLoss(usize),
    TimeOutRenewal(usize),
    ReleaseOrphans(usize),
    RunLate(usize),
    Break(usize),
}

impl Model for Bounds {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            redis: Redis {
                available: self.permits,
                leases: Vec::new(),
            },
            workers: vec![Worker::default(); self.workers],
            late: Vec::new(),
            unanswered: self.unanswered,
            breaks: self.breaks,
            deletions: self.deletions,
            crashes: self.crashes,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let may_fail = state.unanswered > 0;
        for (w, worker) in state.workers.iter().enumerate() {
            match (worker.call, worker.hold) {
                (Some(call), _) => {
                    steps.push(match call.reply {
                        None => Step::Run(w),
                        Some(_) => Step::Receive(w),
                    });
                    if may_fail {
                        steps.extend([Step::Retry(w), Step::GiveUp(w)]);
                    }
                }
                (None, None) => steps.push(Step::Acquire(w)),
                (None, Some(_)) => steps.push(Step::Release(w)),
            }
            match worker.renewal {
                Some(renewal) => {
                    steps.push(match renewal.reply {
                        None => Step::RunRenewal(w),
                        Some(_) => Step::ReceiveLoss(w),
                    });
                    if may_fail {
                        steps.push(Step::TimeOutRenewal(w));
                    }
                }
                None if worker.renewable(self).is_some() => steps.push(Step::Renew(w)),
                None => {}
            }
            if !worker.orphans.is_empty() {
                steps.push(Step::ReleaseOrphans(w));
            }
            if state.crashes > 0 {
                steps.push(Step::Crash(w));
            }
        }
        for (place, late) in state.late.iter().enumerate() {
            if late.copy.is_some() || !late.behind.is_empty() {
                steps.push(Step::RunLate(place));
            }
            if state.breaks > 0 && (late.open || !late.behind.is_empty()) {
                steps.push(Step::Break(place));
            }
        }
        if state.deletions > 0 {
            steps.extend((0..state.redis.leases.len()).map(Step::Delete));
        }
        steps.push(Step::Tick);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Tick => next.tick(self),
            Step::Delete(at) => next.delete(at),
            Step::Crash(w) => next.crash(w),
            Step::Acquire(w) => {
                let to = next.fresh_id(w);
                next.send(w, Script::Acquire, OwnerIds::of(to), to);
            }
            Step::Release(w) => {
                let hold = next.workers[w].hold.take();
                let id = hold.map_or(0, |hold| hold.id);
                next.send(w, Script::Release, OwnerIds::of(id), id);
            }
            Step::Run(w) => next.run_call(w, self),
            Step::Receive(w) => next.receive(w, self),
            Step::Retry(w) => next.retry(w, self),
            Step::GiveUp(w) => next.give_up(w, self),
            Step::Renew(w) => next.renew(w, self),
            Step::RunRenewal(w) => next.run_renewal(w, self),
            Step::ReceiveLoss(w) => next.receive_loss(w),
            Step::TimeOutRenewal(w) => next.time_out_renewal(w),
            Step::ReleaseOrphans(w) => {
                let ids = std::mem::take(&mut next.workers[w].orphans);
                let release = command(w, Script::Release, ids, 0);
                next.redis.run(&release, self);
            }
            Step::RunLate(place) => next.run_late(place, self),
            Step::Break(place) => {
                next.breaks -= 1;
                let late = &mut next.late[place];
                (late.behind, late.open) = (OwnerIds::default(), false);
            }
        }
        next.normalize(self);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all()
    }
}

fn command(worker: usize, script: Script, ids: OwnerIds, to: u8) -> Command {
    Command {
        script,
        worker: worker as u8,
        ids,
        // Without an id of its own, that of the first of them makes no difference.
        to: if script == Script::Acquire {
            to
        } else {
            ids.numbers().next().unwrap_or(0)
        },
    }
}

fn each_in(ids: &mut OwnerIds, f: &mut impl FnMut(&mut u8)) {
    for mut id in std::mem::take(ids).numbers() {
        f(&mut id);
        *ids = ids.with(OwnerIds::of(id));
    }
}

impl Worker {
    /// The id to renew.
    fn renewable(&self, bounds: &Bounds) -> Option<u8> {
        let release = self.call.filter(|call| {
            bounds.has(Planted::RenewedAfterRelease) && call.command.script == Script::Release
        });
        let hold = self.hold.map(|hold| hold.id);
        hold.or(release.map(|call| call.command.to))
    }
}

impl State {
    fn tick(&mut self, bounds: &Bounds) {
        let extendable: Vec<bool> = self
            .redis
            .leases
            .iter()
            .map(|p| self.is_in_use(p))
            .collect();
        for (permit, is_in_use) in self.redis.leases.iter_mut().zip(extendable) {
            permit.unused = if is_in_use { 0 } else { permit.unused + 1 };
            permit.unused = permit.unused.min(bounds.lease);
            permit.left = permit.left.saturating_sub(1);
        }
        for worker in &mut self.workers {
            for call in [&mut worker.call, &mut worker.renewal]
                .into_iter()
                .flatten()
            {
                call.age = (call.age + 1).min(bounds.lease);
            }
            if let Some(hold) = &mut worker.hold {
                hold.left -= 1;
                hold.gone = hold.gone.map(|ticks| ticks + 1);
            }
            let ended = worker.hold.take_if(|hold| hold.left == 0);
            // Its guard releases it.
            let ids = ended.map_or(OwnerIds::default(), |hold| OwnerIds::of(hold.id));
            worker.orphans = worker.orphans.with(ids);
        }
    }

    /// True if a worker has the permit, or still waits for the reply to a command that may lease or
    /// extend it.
    fn is_in_use(&self, permit: &super::redis::Permit) -> bool {
        let w = permit.worker as usize;
        let worker = &self.workers[w];
        let calls = [worker.call, worker.renewal].into_iter().flatten();
        let mut extending = calls.filter(|call| call.command.script != Script::Release);
        worker.hold.is_some_and(|hold| hold.id == permit.id)
            || extending.any(|call| permit.is_of(w, call.command.ids))
    }

    fn delete(&mut self, at: usize) {
        self.deletions -= 1;
        let permit = self.redis.leases.remove(at);
        self.redis.available += 1;
        let hold = &mut self.workers[permit.worker as usize].hold;
        if let Some(hold) = hold.as_mut().filter(|hold| hold.id == permit.id) {
            hold.gone.get_or_insert(0);
        }
    }

    /// The process ends. Its commands may still be executed.
    fn crash(&mut self, w: usize) {
        self.crashes -= 1;
        let worker = std::mem::take(&mut self.workers[w]);
        for call in [worker.call, worker.renewal].into_iter().flatten() {
            self.push_late(
                w,
                Some(call.command).filter(|_| call.reply.is_none()),
                false,
            );
        }
        self.close(w);
    }

    fn push_late(&mut self, w: usize, copy: Option<Command>, open: bool) {
        self.late.push(Late {
            worker: w as u8,
            copy,
            behind: OwnerIds::default(),
            open,
        });
    }

    /// Nothing more is sent on the late connections of the worker.
    fn close(&mut self, w: usize) {
        let late = self.late.iter_mut();
        for late in late.filter(|late| late.worker as usize == w) {
            late.open = false;
        }
    }

    fn send(&mut self, w: usize, script: Script, ids: OwnerIds, to: u8) {
        self.workers[w].call = Some(Call {
            command: command(w, script, ids, to),
            age: 0,
            reply: None,
        });
    }

    fn run_call(&mut self, w: usize, bounds: &Bounds) {
        let Some(mut call) = self.workers[w].call else {
            return;
        };
        call.reply = Some(self.redis.run(&call.command, bounds));
        self.workers[w].call = Some(call);
        let is_mine = |permit: &&super::redis::Permit| permit.is_of(w, call.command.ids);
        if call.reply == Some(Reply::Done)
            && call.command.script == Script::Acquire
            && self.redis.leases.iter().filter(is_mine).count() > 1
            && !self
                .late
                .iter()
                .any(|late| late.worker as usize == w && late.copy.is_some())
        {
            self.broken = Some(ONE);
        }
    }

    fn receive(&mut self, w: usize, bounds: &Bounds) {
        let Some(Call {
            command,
            age,
            reply,
        }) = self.workers[w].call.take()
        else {
            return;
        };
        let granted = OwnerIds::of(command.to);
        match (command.script, reply) {
            (Script::Acquire, Some(Reply::Done)) => {
                let keeps = !bounds.has(Planted::GrantTakenBack);
                let older = if keeps {
                    command.ids.without(granted)
                } else {
                    command.ids
                };
                self.take_back(w, older, bounds);
                let age = if bounds.has(Planted::LeaseFromReply) {
                    0
                } else {
                    age
                };
                if age >= bounds.lease {
                    // The reply took longer than the lease.
                    let orphans = &mut self.workers[w].orphans;
                    *orphans = orphans.with(command.ids);
                } else {
                    let has = self.redis.has(w, granted);
                    self.workers[w].hold = Some(Hold {
                        id: command.to,
                        left: bounds.lease - age,
                        gone: (!has && self.deletions < bounds.deletions).then_some(age),
                    });
                }
            }
            (Script::Acquire, _) => {
                let orphans = &mut self.workers[w].orphans;
                *orphans = orphans.with(command.ids);
                self.take_back(w, command.ids, bounds);
            }
            _ if self.redis.has(w, command.ids) => self.broken = Some(RELEASED),
            _ => {}
        }
        self.close(w);
    }

    /// The call stops waiting for the reply to its present copy.
    fn no_reply(&mut self, w: usize) -> Option<Command> {
        let Call { command, reply, .. } = self.workers[w].call.take()?;
        self.unanswered -= 1;
        let copy = Some(command).filter(|_| reply.is_none());
        self.push_late(w, copy, command.script == Script::Acquire);
        Some(command)
    }

    fn retry(&mut self, w: usize, bounds: &Bounds) {
        let Some(Command {
            script, ids, to, ..
        }) = self.no_reply(w)
        else {
            return;
        };
        if script == Script::Acquire && !bounds.has(Planted::CopiesShareId) {
            let to = self.fresh_id_besides(w, ids);
            self.send(w, script, ids.with(OwnerIds::of(to)), to);
        } else {
            self.send(w, script, ids, to);
        }
    }

    fn give_up(&mut self, w: usize, bounds: &Bounds) {
        let Some(command) = self.no_reply(w) else {
            return;
        };
        let orphans = &mut self.workers[w].orphans;
        *orphans = orphans.with(command.ids);
        if command.script == Script::Acquire {
            self.take_back(w, command.ids, bounds);
        }
        self.close(w);
    }

    /// Sends a release behind each unanswered copy of the call.
    fn take_back(&mut self, w: usize, ids: OwnerIds, bounds: &Bounds) {
        let late = self.late.iter_mut().filter(|late| late.open);
        for late in late.filter(|late| late.worker as usize == w) {
            if !bounds.has(Planted::NotTakenBack) {
                late.behind = ids;
            }
        }
    }

    fn renew(&mut self, w: usize, bounds: &Bounds) {
        let id = self.workers[w].renewable(bounds).unwrap_or_default();
        self.workers[w].renewal = Some(Call {
            command: command(w, Script::Renew, OwnerIds::of(id), id),
            age: 0,
            reply: None,
        });
    }

    /// Success is received at once or not at all, because the lease counts from before the request.
    fn run_renewal(&mut self, w: usize, bounds: &Bounds) {
        let Some(mut renewal) = self.workers[w].renewal.take() else {
            return;
        };
        if self.redis.run(&renewal.command, bounds) == Reply::No {
            renewal.reply = Some(Reply::No);
            self.workers[w].renewal = Some(renewal);
            return;
        }
        let hold = self.workers[w].hold.as_mut();
        if let Some(hold) = hold.filter(|hold| hold.id == renewal.command.to) {
            let from_reply = bounds.has(Planted::LeaseFromReply);
            let age = if from_reply { 0 } else { renewal.age };
            hold.left = hold.left.max(bounds.lease - age);
        }
    }

    fn time_out_renewal(&mut self, w: usize) {
        self.unanswered -= 1;
        if let Some(renewal) = self.workers[w].renewal.take() {
            let copy = Some(renewal.command).filter(|_| renewal.reply.is_none());
            self.push_late(w, copy, false);
        }
    }

    fn receive_loss(&mut self, w: usize) {
        let Some(renewal) = self.workers[w].renewal.take() else {
            return;
        };
        let lost = self.workers[w]
            .hold
            .take_if(|hold| hold.id == renewal.command.to);
        if lost.is_some_and(|hold| hold.gone.is_none()) {
            self.broken = Some(FALSE_LOSS);
        }
    }

    /// Redis runs the next command of a late connection.
    fn run_late(&mut self, place: usize, bounds: &Bounds) {
        let late = &mut self.late[place];
        let (w, behind, open) = (late.worker as usize, late.behind, late.open);
        let Some(copy) = late.copy.take() else {
            late.behind = OwnerIds::default();
            self.redis
                .run(&command(w, Script::Release, behind, 0), bounds);
            return;
        };
        let reply = self.redis.run(&copy, bounds);
        if copy.script == Script::Renew && !bounds.has(Planted::ExpiredRenewed) {
            // A renewal that is late extends the lease once more.
            let mut leases = self.redis.leases.iter_mut();
            let renewed = leases.find(|permit| permit.is_of(w, copy.ids));
            renewed.into_iter().for_each(|permit| permit.unused = 0);
        }
        let connected = self.breaks == bounds.breaks && self.crashes == bounds.crashes;
        let granted = copy.script == Script::Acquire && reply == Reply::Done;
        if granted && connected && !open && !behind.has(copy.to) {
            self.broken = Some(TAKEN_BACK);
        }
    }

    fn fresh_id(&self, w: usize) -> u8 {
        self.fresh_id_besides(w, OwnerIds::default())
    }

    /// An id of the worker that nothing refers to.
    fn fresh_id_besides(&self, w: usize, others: OwnerIds) -> u8 {
        let worker = &self.workers[w];
        let leased = self.redis.leases.iter().filter(|p| p.worker as usize == w);
        let leased = leased.map(|permit| OwnerIds::of(permit.id));
        let calls = [worker.call, worker.renewal].into_iter().flatten();
        let late = self.late.iter().filter(|late| late.worker as usize == w);
        let late = late.flat_map(|late| [Some(late.behind), late.copy.map(|copy| copy.ids)]);
        let hold = worker.hold.map(|hold| OwnerIds::of(hold.id));
        let used = leased
            .chain(calls.map(|call| call.command.ids))
            .chain(late.flatten())
            .chain(hold)
            .fold(others.with(worker.orphans), OwnerIds::with);
        let mut free = OwnerIds(!used.0).numbers();
        free.next().expect("the failures cannot use eight ids")
    }

    /// Removes what makes no difference any more.
    fn normalize(&mut self, bounds: &Bounds) {
        self.redis.leases.sort_unstable();
        let all_matter = [Planted::ReleaseUnchecked, Planted::RenewUnchecked];
        if !all_matter.map(Some).contains(&bounds.planted) {
            self.drop_obsolete();
        }
        let is_of_use = |late: &Late| late.open || late.copy.is_some() || !late.behind.is_empty();
        self.late.retain(is_of_use);
        self.late.sort_unstable();
        (0..self.workers.len()).for_each(|w| self.renumber_ids(w));
        self.late.sort_unstable();
        self.redis.leases.sort_unstable();
    }

    /// Numbers the ids of a worker in the order in which the state mentions them.
    fn renumber_ids(&mut self, w: usize) {
        let (mut new, mut next) = ([None; 8], 0);
        let mut renumber = |id: &mut u8| {
            *id = *new[*id as usize].get_or_insert_with(|| {
                next += 1;
                next - 1
            });
        };
        let worker = &mut self.workers[w];
        if let Some(hold) = &mut worker.hold {
            renumber(&mut hold.id);
        }
        for call in [&mut worker.call, &mut worker.renewal]
            .into_iter()
            .flatten()
        {
            renumber(&mut call.command.to);
            each_in(&mut call.command.ids, &mut renumber);
        }
        let leases = self.redis.leases.iter_mut();
        for permit in leases.filter(|permit| permit.worker as usize == w) {
            renumber(&mut permit.id);
        }
        for late in self
            .late
            .iter_mut()
            .filter(|late| late.worker as usize == w)
        {
            if let Some(copy) = &mut late.copy {
                renumber(&mut copy.to);
                each_in(&mut copy.ids, &mut renumber);
            }
            each_in(&mut late.behind, &mut renumber);
        }
        each_in(&mut self.workers[w].orphans, &mut renumber);
    }

    /// Drops releases and renewals of permits that are not leased and cannot be.
    fn drop_obsolete(&mut self) {
        for w in 0..self.workers.len() {
            let leased = self.redis.leases.iter().filter(|p| p.worker as usize == w);
            let leased = leased.map(|permit| permit.id);
            let call = self.workers[w].call.filter(|call| call.reply.is_none());
            let late = self.late.iter().filter(|late| late.worker as usize == w);
            let sent = late
                .filter_map(|late| late.copy)
                .chain(call.map(|call| call.command));
            let acquires = sent.filter(|command| command.script == Script::Acquire);
            let live = leased
                .chain(acquires.map(|command| command.to))
                .fold(OwnerIds::default(), |ids, id| ids.with(OwnerIds::of(id)));
            let worker = &mut self.workers[w];
            worker.orphans = worker.orphans.intersection(live);
            for late in self
                .late
                .iter_mut()
                .filter(|late| late.worker as usize == w)
            {
                late.behind = late.behind.intersection(live);
                late.copy = late.copy.filter(|copy| {
                    copy.script == Script::Acquire || !copy.ids.intersection(live).is_empty()
                });
            }
        }
    }
}
