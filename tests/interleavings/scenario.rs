//! Threads of one client that contend for some locks, one after another.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::{OwnerId, ThreadId};
use crate::base::parker;
use crate::error::LostReason;
use crate::lease::{Renewals, Terms};
use crate::local::{
    CameWith, Claim, Grant, Granted, Hold, LocalQueue, LockId, Unlocked, Unlocks, Waiter, Wanted,
};
use crate::protocol::{FENCED, Kind, READ, WRITE};
use crate::watchdog::{Renew, Step};

const THREADS: u64 = 3;
const ROUNDS: usize = 3;
const TERMS: Terms = Terms {
    millis: 30_000,
    renewals: Renewals::Unlimited,
};

/// A thread, and whether it reads.
type Who = (ThreadId, bool);

/// What may happen besides locking and unlocking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scenario {
    /// The number of locks besides the first. A thread wants one of them or all.
    pub locks: usize,
    /// The locks are read-write locks, and fenced locks otherwise.
    pub reads: bool,
    pub gives_up: bool,
    pub loses: bool,
    pub lingers: bool,
    /// Threads with one lock wait on conditions.
    pub suspends: bool,
    /// Threads with a lock other than the first also acquire the next one, the last one the first:
    /// no circle, because threads with the first lock do not.
    pub nests: bool,
}

/// What the threads share.
struct World {
    scenario: Scenario,
    queue: Arc<LocalQueue>,
    locks: Vec<LockId>,
    redis: Mutex<Redis>,
    /// The holds of the threads that are inside.
    inside: Mutex<Vec<Arc<Hold>>>,
}

#[derive(Default)]
struct Redis {
    owners: HashMap<LockId, Owners>,
    last_token: u64,
    /// The token of the last hold of each lock.
    seen: HashMap<LockId, u64>,
    grants: Vec<Arc<Grant>>,
}

/// The owners of one lock.
#[derive(Default)]
struct Owners {
    writer: Option<String>,
    readers: HashSet<String>,
}

impl Scenario {
    pub fn run(self) {
        let locks = 0..=self.locks;
        let id = |at| LockId::new(1, &LockKey::new("", &format!("{at}")));
        let world = Arc::new(World {
            scenario: self,
            queue: Arc::default(),
            locks: locks.map(id).collect(),
            redis: Mutex::default(),
            inside: Mutex::default(),
        });
        let watchdog = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.watch())
        };
        let threads = (1..=THREADS).map(|number| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    world.round(ThreadId::numbered(number));
                }
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        watchdog.join().unwrap();
        world.check_end();
    }

    fn kind(&self, is_shared: bool) -> &'static Kind {
        match (self.reads, is_shared) {
            (false, _) => &FENCED,
            (true, false) => &WRITE,
            (true, true) => &READ,
        }
    }

    fn linger(&self) -> Duration {
        Duration::from_micros(u64::from(self.lingers))
    }
}

impl Redis {
    /// True if a request of this kind is granted, within a hold of its thread or without.
    fn is_open(&mut self, lock: &LockId, is_shared: bool, own: Option<&OwnerId>) -> bool {
        let owners = self.owners.entry(lock.clone()).or_default();
        let own = own.map(OwnerId::as_str);
        let is_written = owners.writer.is_some() && owners.writer.as_deref() != own;
        !is_written && (is_shared || owners.readers.is_empty())
    }

    fn take(&mut self, lock: &LockId, is_shared: bool, owner: &OwnerId) {
        let owners = self.owners.entry(lock.clone()).or_default();
        let owner = owner.as_str().to_owned();
        if is_shared {
            owners.readers.insert(owner);
        } else {
            owners.writer = Some(owner);
        }
    }

    fn release(&mut self, grant: &Grant) {
        let owners = self.owners.entry(grant.lock.clone()).or_default();
        let owner = grant.owner().as_str();
        owners.readers.remove(owner);
        owners.writer.take_if(|writer| writer == owner);
    }

    fn is_free(&self) -> bool {
        let mut owners = self.owners.values();
        owners.all(|owners| owners.writer.is_none() && owners.readers.is_empty())
    }
}

impl World {
    /// One thread locks and unlocks, or gives up. A writer may read before it has unlocked.
    fn round(&self, thread: ThreadId) {
        let scenario = &self.scenario;
        let coin = || thread_rng().gen_range(0..2) == 0;
        let is_shared = scenario.reads && thread_rng().gen_range(0..3) > 0;
        let wanted = match thread_rng().gen_range(0..=self.locks.len()) {
            at if at < self.locks.len() => vec![self.locks[at].clone()],
            _ => self.locks.clone(),
        };
        let Some(holds) = self.acquire(&wanted, (thread, is_shared)) else {
            return;
        };
        self.work(&holds);
        if scenario.nests && wanted.len() == 1 && wanted[0] != self.locks[0] {
            let at = self.locks.iter().position(|lock| *lock == wanted[0]);
            let next = self.locks[(at.unwrap() + 1) % self.locks.len()].clone();
            if let Some(inner) = self.acquire(&[next], (thread, false)) {
                self.work(&inner);
                self.unlock(&inner);
            }
        }
        if let [hold] = &holds[..]
            && scenario.suspends
            && coin()
            && self.suspend(hold)
        {
            match self.acquire(&wanted, (thread, false)) {
                Some(again) => self.queue.resume(hold, &again[0]),
                None => return hold.abandon(None),
            }
            self.work(&holds);
        }
        let is_downgraded = scenario.reads && !is_shared && coin() && holds[0].check().is_ok();
        let reading = is_downgraded.then(|| self.acquire(&wanted, (thread, true)));
        self.unlock(&holds);
        if let Some(reading) = reading.flatten() {
            self.work(&reading);
            self.unlock(&reading);
        }
    }

    /// Releases the lock of a hold that continues later. False if it is lost.
    fn suspend(&self, hold: &Arc<Hold>) -> bool {
        let linger = self.scenario.linger();
        match self.queue.unlock(&[(hold, Unlocks::Suspends, linger)])[..] {
            [Unlocked::HandedOver | Unlocked::Idle] => {}
            [Unlocked::Last] => {
                self.release(&hold.grant());
                self.queue.close(&[(hold, None)]);
            }
            [Unlocked::Lost { last: false, .. }] => return false,
            ref other => panic!("{other:?}"),
        }
        assert!(hold.check().is_err());
        thread::yield_now();
        true
    }

    fn acquire(&self, wanted: &[LockId], who: Who) -> Option<Vec<Arc<Hold>>> {
        let terms = vec![TERMS; wanted.len()];
        let kind = self.scenario.kind(who.1);
        let mut entered = self.queue.enter(wanted.iter(), who, Moment::now());
        let within = entered.other.take();
        let mut had_tickets = false;
        loop {
            let mut claim = match entered.claim.take() {
                Some(claim) => claim,
                None => self.wait(wanted, who, had_tickets)?,
            };
            match claim.take(&terms, terms.len(), kind) {
                CameWith::HandedOver(holds) | CameWith::Idle(holds) => {
                    return Some(holds.into_vec());
                }
                CameWith::Nothing => {}
                CameWith::Unsuited(grants) => {
                    grants.iter().for_each(|grant| self.release(grant));
                }
                CameWith::Loss => continue,
            }
            if !self.gives_way(wanted, &mut claim) {
                return self.request(wanted, claim, who, within.as_deref());
            }
            had_tickets = true;
        }
    }

    /// Another client holds one of the locks: other threads may use the others meanwhile. True if
    /// the thread has no ticket after that.
    fn gives_way(&self, wanted: &[LockId], claim: &mut Claim) -> bool {
        if wanted.len() == 1 || thread_rng().gen_range(0..2) == 0 {
            return false;
        }
        claim.give_way(&wanted[thread_rng().gen_range(0..wanted.len())]);
        thread::yield_now();
        let is_regained = claim.regain(Moment::now());
        if !is_regained {
            claim.give_up();
        }
        !is_regained
    }

    fn wait(
        &self,
        wanted: &[LockId],
        (thread, is_shared): Who,
        had_tickets: bool,
    ) -> Option<Claim> {
        let (unparker, parker) = parker::pair();
        let wanted = Wanted {
            locks: wanted.iter().cloned().collect(),
            terms: wanted.iter().map(|_| TERMS).collect(),
            needed: wanted.len(),
            kind: self.scenario.kind(is_shared),
            is_shared,
        };
        let waiter = Waiter::new(wanted, thread, &unparker);
        let keeps_place = thread_rng().gen_range(0..2) == 0;
        waiter.keeps_place.store(keeps_place, Ordering::Relaxed);
        if let Some(claim) = self.queue.enqueue(&waiter, had_tickets) {
            return Some(claim);
        }
        let gives_up = self.scenario.gives_up && thread_rng().gen_range(0..3) == 0;
        loop {
            if let Some(claim) = self.queue.claim_of(&waiter) {
                return Some(claim);
            }
            if waiter.keeps_place.swap(false, Ordering::Relaxed) {
                // As at the end of a period.
                thread::yield_now();
                self.queue.look_again(&waiter);
                continue;
            }
            if gives_up {
                thread::yield_now();
                // What it gets in the last moment goes to the next thread, as after an interrupt.
                drop(self.queue.leave(&waiter));
                return None;
            }
            parker.sleep(Duration::MAX);
        }
    }

    /// Acquires the locks from Redis; `None` if the hold `within` which it does so is lost.
    fn request(
        &self,
        wanted: &[LockId],
        claim: Claim,
        (thread, is_shared): Who,
        within: Option<&Hold>,
    ) -> Option<Vec<Arc<Hold>>> {
        let owner = OwnerId::new("client");
        let own = within.map(|hold| hold.grant().owner().clone());
        let tokens = loop {
            let mut redis = self.redis.lock().unwrap();
            let is_lost = |own: &OwnerId| {
                let owners = redis.owners.get(&wanted[0]);
                owners.and_then(|owners| owners.writer.as_deref()) != Some(own.as_str())
            };
            if own.as_ref().is_some_and(is_lost) {
                return None;
            }
            let mut locks = wanted.iter();
            if locks.all(|lock| redis.is_open(lock, is_shared, own.as_ref())) {
                let locks = wanted.iter();
                locks.for_each(|lock| redis.take(lock, is_shared, &owner));
                let first = redis.last_token + 1;
                redis.last_token += 2;
                break first..first + 2;
            }
            drop(redis);
            // The watchdog releases what became idle while this thread requests the lock.
            self.release_idle();
            thread::yield_now();
        };
        // Some of the slices are over at the next unlock, and some grants too old to be joined.
        let longest = if self.scenario.reads { 80 } else { 15 };
        let asked = Moment::now().before(Duration::from_millis(thread_rng().gen_range(0..longest)));
        let granted = Granted {
            owner,
            asked,
            replied: asked,
            terms: TERMS,
            tokens: if self.scenario.reads { 0..0 } else { tokens },
            turns: None,
        };
        let begin = |lock: &LockId| {
            let kind = self.scenario.kind(is_shared);
            let place = (lock.clone(), LockKey::new("", &lock.key), kind);
            let queue = &self.queue;
            queue.begin_hold(place, granted.clone(), &Arc::default(), thread)
        };
        let holds: Vec<Arc<Hold>> = wanted.iter().map(begin).collect();
        claim.keep(holds.iter());
        let grants = holds.iter().map(|hold| hold.grant());
        self.redis.lock().unwrap().grants.extend(grants);
        Some(holds)
    }

    /// Checks that no other thread has a valid hold on the same locks, or that all of them read,
    /// and that tokens rise.
    fn work(&self, holds: &[Arc<Hold>]) {
        {
            let mut inside = self.inside.lock().unwrap();
            let mut redis = self.redis.lock().unwrap();
            // A grant may be lost before its thread comes here.
            for hold in holds.iter().filter(|hold| hold.check().is_ok()) {
                let is_other = |other: &&Arc<Hold>| {
                    other.lock == hold.lock
                        && other.thread != hold.thread
                        && !(other.is_shared() && hold.is_shared())
                };
                for other in inside.iter().filter(is_other) {
                    assert!(other.check().is_err(), "two valid holds");
                }
                assert_eq!(hold.token().is_none(), self.scenario.reads);
                if let Some(token) = hold.token() {
                    let last = redis.seen.insert(hold.lock.clone(), token);
                    assert!(last.is_none_or(|last| last < token), "tokens rise");
                }
            }
            inside.extend(holds.iter().cloned());
        }
        thread::yield_now();
        let mut inside = self.inside.lock().unwrap();
        inside.retain(|other| !holds.iter().any(|hold| Arc::ptr_eq(hold, other)));
    }

    fn unlock(&self, holds: &[Arc<Hold>]) {
        let linger = self.scenario.linger();
        let level = |hold| (hold, Unlocks::Newest, linger);
        let levels: Vec<_> = holds.iter().map(level).collect();
        for (hold, unlocked) in holds.iter().zip(self.queue.unlock(&levels)) {
            match unlocked {
                Unlocked::HandedOver | Unlocked::Idle => {}
                Unlocked::Shared if self.scenario.reads => {}
                Unlocked::Last => {
                    self.release(&hold.grant());
                    self.queue.close(&[(hold, None)]);
                }
                Unlocked::Lost { last, .. } => {
                    assert!(last, "it has one level");
                    self.queue.close(&[(hold, None)]);
                }
                other => panic!("{other:?}"),
            }
            let again = self
                .queue
                .unlock(&[(hold, Unlocks::Newest, Duration::ZERO)]);
            assert_eq!(
                again[..],
                [Unlocked::NotHeld],
                "its grant may be another's by now"
            );
        }
    }

    fn release(&self, grant: &Grant) {
        self.redis.lock().unwrap().release(grant);
    }

    /// Releases idle grants, and loses some that are held, or the hold of one reader.
    fn watch(&self) {
        for _ in 0..2 * ROUNDS {
            thread::yield_now();
            self.release_idle();
            let grants = self.redis.lock().unwrap().grants.clone();
            if !self.scenario.loses || grants.is_empty() {
                continue;
            }
            if self.scenario.reads && thread_rng().gen_range(0..2) == 0 {
                let hold = self.inside.lock().unwrap().first().cloned();
                if let Some(hold) = hold.filter(|hold| hold.is_shared()) {
                    hold.lose(LostReason::RenewalLimit);
                    if hold.grant().has_ended() {
                        self.release(&hold.grant());
                    }
                }
            } else {
                let grant = &grants[thread_rng().gen_range(0..grants.len())];
                self.release(grant);
                grant.lose(LostReason::Deleted);
            }
        }
    }

    fn release_idle(&self) {
        let grants = self.redis.lock().unwrap().grants.clone();
        for grant in grants {
            if let Step::Release(_) = grant.next_step(Moment::now()) {
                self.release(&grant);
            }
        }
    }

    /// All locks are free, here and in Redis.
    fn check_end(&self) {
        // An idle grant is due after a microsecond.
        let latest = Moment::now().after(Duration::from_secs(10));
        while !self.redis.lock().unwrap().is_free() {
            assert!(!latest.is_past(), "Redis has a grant that nothing releases");
            let grants = self.redis.lock().unwrap().grants.clone();
            let is_held = |grant: &&Arc<Grant>| grant.schedule().lease.is_some();
            let held = grants.iter().filter(is_held).count();
            assert_eq!(held, 0, "a grant without a thread is held");
            self.release_idle();
        }
        let who = (ThreadId::numbered(THREADS + 1), false);
        let entered = self.queue.enter(self.locks.iter(), who, Moment::now());
        assert!(entered.claim.is_some(), "all tickets are free");
    }
}
