//! The threads of the client, the link, and the lock in Redis.

use std::collections::VecDeque;

use super::{Bounds, Planted};
use crate::check::renumber;
use crate::redis::Script;

pub const MATCHED: &str = "a reply is given to its request";

/// The lock in Redis while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub id: u8,
    /// Ticks until it expires.
    pub left: u8,
    /// The link of the acquire had broken before. Only the promises read this field.
    pub by_old: bool,
}

/// An acquire or a release under an owner id. There is one acquire for each id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub script: Script,
    pub id: u8,
}

/// A reply on its way. The client sees only what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    pub is_done: bool,
    /// The request that the server has answered. Only the promises read this field.
    of: Request,
}

/// A request in the queue of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Awaited {
    pub request: Request,
    /// The thread that waits. Nothing: the request is abandoned, or settles one that is.
    pub thread: Option<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    /// What the server has not executed.
    pub sent: VecDeque<Request>,
    pub replies: VecDeque<Reply>,
    pub awaited: VecDeque<Awaited>,
    /// The thread that reads.
    pub reader: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    pub request: Request,
    /// Ticks since the request was sent, at most a lease.
    pub age: u8,
    /// What another thread has read for it.
    pub reply: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thread {
    Idle,
    Waiting(Wait),
    Holding {
        id: u8,
        /// Ticks until the hold ends in the process.
        left: u8,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub key: Option<Key>,
    pub threads: Vec<Thread>,
    pub link: Link,
    /// The owner ids that the client has to settle.
    pub abandoned: Vec<u8>,
    /// What broken links have carried and the server has not executed.
    pub broken_links: Vec<VecDeque<Request>>,
    pub unanswered: u8,
    pub breaks: u8,
    lease: u8,
    /// A promise that a step has broken.
    pub broken: Option<&'static str>,
}

impl State {
    pub fn new(bounds: &Bounds) -> Self {
        Self {
            threads: vec![Thread::Idle; bounds.threads],
            unanswered: bounds.unanswered,
            breaks: bounds.breaks,
            lease: bounds.lease,
            ..Self::default()
        }
    }

    pub fn tick(&mut self) {
        if let Some(key) = &mut self.key {
            key.left -= 1;
        }
        self.key.take_if(|key| key.left == 0);
        for thread in &mut self.threads {
            match thread {
                Thread::Idle => {}
                Thread::Waiting(wait) => wait.age = (wait.age + 1).min(self.lease),
                Thread::Holding { left: 1, id } => {
                    // Its guard has it released.
                    self.abandoned.push(*id);
                    *thread = Thread::Idle;
                }
                Thread::Holding { left, .. } => *left -= 1,
            }
        }
    }

    pub fn lock(&mut self, t: usize) {
        let id = self.fresh_id();
        self.send_and_wait(t, Script::Acquire, id);
    }

    pub fn unlock(&mut self, t: usize) {
        if let Thread::Holding { id, .. } = self.threads[t] {
            self.send_and_wait(t, Script::Release, id);
        }
    }

    fn send_and_wait(&mut self, t: usize, script: Script, id: u8) {
        let request = Request { script, id };
        self.send(request, Some(t as u8));
        self.threads[t] = Thread::Waiting(Wait {
            request,
            age: 0,
            reply: None,
        });
        self.link.reader.get_or_insert(t as u8);
    }

    fn send(&mut self, request: Request, thread: Option<u8>) {
        self.link.sent.push_back(request);
        self.link.awaited.push_back(Awaited { request, thread });
    }

    /// Redis runs a script.
    fn run(&mut self, request: Request, by_old: bool) -> Reply {
        let is_owner = self.key.is_some_and(|key| key.id == request.id);
        let is_done = match request.script {
            Script::Acquire if self.key.is_none() => {
                self.key = Some(Key {
                    id: request.id,
                    left: self.lease,
                    by_old,
                });
                true
            }
            Script::Release if is_owner => self.key.take().is_some(),
            _ => false,
        };
        Reply {
            is_done,
            of: request,
        }
    }

    pub fn execute(&mut self) {
        if let Some(request) = self.link.sent.pop_front() {
            let reply = self.run(request, false);
            self.link.replies.push_back(reply);
        }
    }

    pub fn execute_old(&mut self, at: usize) {
        if let Some(request) = self.broken_links[at].pop_front() {
            self.run(request, true);
        }
    }

    /// A thread reads until it has its own reply. While none waits, the client may read.
    pub fn can_read(&self) -> bool {
        let is_read = self.link.reader.is_some() || !self.is_waited_for();
        is_read && !self.link.replies.is_empty() && !self.link.awaited.is_empty()
    }

    pub fn is_waited_for(&self) -> bool {
        self.threads.iter().any(Thread::awaits_reply)
    }

    pub fn read(&mut self, replies: usize, bounds: &Bounds) {
        let mut own = None;
        for _ in 0..replies {
            let link = &mut self.link;
            let replies = link.replies.pop_front();
            let Some((reply, awaited)) = replies.zip(link.awaited.pop_front()) else {
                break;
            };
            if reply.of != awaited.request {
                self.broken = Some(MATCHED);
            }
            match awaited.thread {
                Some(thread) if link.reader == Some(thread) => own = Some((thread, reply.is_done)),
                Some(thread) => self.wake(thread as usize, reply.is_done, bounds),
                None => self.settle_by_late_reply(awaited.request, reply.is_done, bounds),
            }
        }
        if let Some((thread, is_done)) = own {
            self.pass_reading_on();
            self.finish(thread as usize, is_done, bounds);
        }
    }

    fn wake(&mut self, t: usize, is_done: bool, bounds: &Bounds) {
        if let Thread::Waiting(wait) = &mut self.threads[t]
            && !bounds.has(Planted::NotWoken)
        {
            wait.reply = Some(is_done);
        }
    }

    /// The thread that reads has its reply, or leaves. Another one that waits has to read.
    fn pass_reading_on(&mut self) {
        let reader = self.link.reader.take();
        let mut waiting = self.link.awaited.iter().filter_map(|one| one.thread);
        self.link.reader = waiting
            .find(|&thread| Some(thread) != reader && self.threads[thread as usize].awaits_reply());
    }

    pub fn go_on(&mut self, t: usize, bounds: &Bounds) {
        if let Thread::Waiting(Wait {
            reply: Some(is_done),
            ..
        }) = self.threads[t]
        {
            self.finish(t, is_done, bounds);
        }
    }

    /// A thread has its reply.
    fn finish(&mut self, t: usize, is_done: bool, bounds: &Bounds) {
        let Thread::Waiting(wait) = self.threads[t] else {
            return;
        };
        self.threads[t] = Thread::Idle;
        if wait.request.script != Script::Acquire || !is_done {
            return;
        }
        let is_late = bounds.has(Planted::LeaseFromReply);
        let age = if is_late { 0 } else { wait.age };
        let id = wait.request.id;
        if age >= self.lease {
            // The reply took longer than the lease.
            self.abandoned.push(id);
        } else {
            let left = self.lease - age;
            self.threads[t] = Thread::Holding { id, left };
        }
    }

    /// The deadline of a thread passes before its reply has been read.
    pub fn abandon(&mut self, t: usize, bounds: &Bounds) {
        let Thread::Waiting(wait) = self.threads[t] else {
            return;
        };
        self.unanswered -= 1;
        self.threads[t] = Thread::Idle;
        let thread = Some(t as u8);
        let mut awaited = self.link.awaited.iter_mut();
        if let Some(one) = awaited.find(|one| one.thread == thread) {
            one.thread = None;
            if bounds.has(Planted::EntryDropped) {
                let request = one.request;
                self.link.awaited.retain(|one| one.request != request);
            }
        }
        if !bounds.has(Planted::NotSettled) {
            self.abandoned.push(wait.request.id);
        }
        if self.link.reader == thread && !bounds.has(Planted::ReadingKept) {
            self.pass_reading_on();
        }
    }

    /// A refused acquire needs no release. Neither does what a release has settled.
    fn settle_by_late_reply(&mut self, request: Request, is_done: bool, bounds: &Bounds) {
        let is_granted = request.script == Script::Acquire && is_done;
        if !is_granted || bounds.has(Planted::LateGrantIgnored) {
            self.abandoned.retain(|id| *id != request.id);
        }
    }

    /// Sends a release of an abandoned copy. It is behind the copy, unless the link of the copy has
    /// broken.
    pub fn settle(&mut self, at: usize, bounds: &Bounds) {
        let release = Request {
            script: Script::Release,
            id: self.abandoned.remove(at),
        };
        if bounds.has(Planted::ReleaseOvertakes) {
            self.run(release, false);
        } else {
            self.send(release, None);
        }
    }

    /// The replies are lost. Each request ends as one that was sent and has no reply.
    pub fn break_link(&mut self, bounds: &Bounds) {
        self.breaks -= 1;
        let mut link = std::mem::take(&mut self.link);
        self.broken_links.push(link.sent);
        if bounds.has(Planted::QueueKept) {
            self.link.awaited = std::mem::take(&mut link.awaited);
            self.link.reader = link.reader;
        }
        for awaited in link.awaited {
            if let Some(thread) = awaited.thread {
                self.threads[thread as usize] = Thread::Idle;
            }
            // An abandoned acquire is among the copies to settle, or its release is behind it.
            let is_release = awaited.request.script == Script::Release;
            let is_repeated = is_release && !bounds.has(Planted::ReleaseNotRepeated);
            if awaited.thread.is_some() || is_repeated {
                self.abandoned.push(awaited.request.id);
            }
        }
    }

    fn fresh_id(&self) -> u8 {
        let mut used = [false; 16];
        self.clone().each_id(|id| used[*id as usize] = true);
        let free = used.iter().position(|is_used| !is_used);
        free.expect("the failures cannot use sixteen owner ids") as u8
    }

    /// Removes what makes no difference any more, and renumbers owner ids and threads.
    pub fn normalize(&mut self) {
        // A release changes nothing if the lock neither has the owner id nor will have it.
        let sent = self.broken_links.iter().flatten().chain(&self.link.sent);
        let acquires = sent.filter(|request| request.script == Script::Acquire);
        let key = self.key.iter().map(|key| key.id);
        let live: Vec<u8> = acquires.map(|request| request.id).chain(key).collect();
        self.abandoned.retain(|id| live.contains(id));
        for sent in &mut self.broken_links {
            sent.retain(|request| live.contains(&request.id));
        }
        self.broken_links.retain(|sent| !sent.is_empty());
        for thread in &mut self.threads {
            // The age of a release makes no difference.
            if let Thread::Waiting(wait) = thread
                && wait.request.script == Script::Release
            {
                wait.age = 0;
            }
        }
        self.sort_threads();
        self.abandoned.sort_unstable();
        self.abandoned.dedup();
        self.each_id(renumber());
        self.abandoned.sort_unstable();
    }

    /// The threads are equivalent. Those that wait come first, in the order of their requests.
    fn sort_threads(&mut self) {
        let place = |thread| {
            let mut awaited = self.link.awaited.iter();
            let place = awaited.position(|one| one.thread == Some(thread as u8));
            place.unwrap_or(usize::MAX)
        };
        let mut order: Vec<_> = (0..self.threads.len()).collect();
        order.sort_by_key(|&thread| (place(thread), self.threads[thread].rank()));
        let new = |old: &mut u8| {
            let place = order.iter().position(|&thread| thread == *old as usize);
            *old = place.map_or(*old, |place| place as u8);
        };
        let awaited = self.link.awaited.iter_mut();
        awaited
            .filter_map(|one| one.thread.as_mut())
            .chain(&mut self.link.reader)
            .for_each(new);
        self.threads = order.iter().map(|&thread| self.threads[thread]).collect();
    }

    /// Calls `f` with each mention of an owner id.
    fn each_id(&mut self, mut f: impl FnMut(&mut u8)) {
        for thread in &mut self.threads {
            match thread {
                Thread::Idle => {}
                Thread::Waiting(wait) => f(&mut wait.request.id),
                Thread::Holding { id, .. } => f(id),
            }
        }
        if let Some(key) = &mut self.key {
            f(&mut key.id);
        }
        let link = &mut self.link;
        link.sent.iter_mut().for_each(|request| f(&mut request.id));
        link.replies
            .iter_mut()
            .for_each(|reply| f(&mut reply.of.id));
        let awaited = link.awaited.iter_mut();
        awaited.for_each(|one| f(&mut one.request.id));
        let old = self.broken_links.iter_mut().flatten();
        old.for_each(|request| f(&mut request.id));
        self.abandoned.iter_mut().for_each(f);
    }
}

impl Thread {
    /// True if no reply was read for it.
    pub fn awaits_reply(&self) -> bool {
        matches!(self, Self::Waiting(wait) if wait.reply.is_none())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Waiting(_) => 0,
            Self::Holding { .. } => 1,
            Self::Idle => 2,
        }
    }

    /// The owner id of its hold or of its call.
    pub fn id(&self) -> Option<u8> {
        match self {
            Self::Idle => None,
            Self::Waiting(wait) => Some(wait.request.id),
            Self::Holding { id, .. } => Some(*id),
        }
    }
}
