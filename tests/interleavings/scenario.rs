//! Threads of one client that contend for some locks, one after another.

use std::collections::HashMap;
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
use crate::protocol::FENCED;
use crate::watchdog::{Renew, Step};

const THREADS: u64 = 3;
const ROUNDS: usize = 3;
const TERMS: Terms = Terms {
    millis: 30_000,
    renewals: Renewals::Unlimited,
};

/// What may happen besides locking and unlocking.
#[derive(Clone, Copy, Default)]
pub struct Scenario {
    /// The number of locks besides the first. A thread wants one of them or all.
    pub locks: usize,
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
    /// The owner of each lock.
    owners: HashMap<LockId, String>,
    last_token: u64,
    /// The token of the last hold of each lock.
    seen: HashMap<LockId, u64>,
    grants: Vec<Arc<Grant>>,
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
}

impl World {
    /// One thread locks and unlocks, or gives up.
    fn round(&self, thread: ThreadId) {
        let wanted = match thread_rng().gen_range(0..=self.locks.len()) {
            at if at < self.locks.len() => vec![self.locks[at].clone()],
            _ => self.locks.clone(),
        };
        let Some(holds) = self.acquire(&wanted, thread) else {
            return;
        };
        self.work(&holds);
        if self.scenario.nests && wanted.len() == 1 && wanted[0] != self.locks[0] {
            let at = self.locks.iter().position(|lock| *lock == wanted[0]);
            let next = self.locks[(at.unwrap() + 1) % self.locks.len()].clone();
            if let Some(inner) = self.acquire(&[next], thread) {
                self.work(&inner);
                self.unlock(&inner);
            }
        }
        if let [hold] = &holds[..]
            && self.scenario.suspends
            && thread_rng().gen_range(0..2) == 0
            && self.suspend(hold)
        {
            match self.acquire(&wanted, thread) {
                Some(again) => self.queue.resume(hold, &again[0]),
                None => return hold.abandon(None),
            }
            self.work(&holds);
        }
        self.unlock(&holds);
    }

    /// Releases the lock of a hold that continues later. False if it is lost.
    fn suspend(&self, hold: &Arc<Hold>) -> bool {
        let linger = Duration::from_micros(u64::from(self.scenario.lingers));
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

    fn acquire(&self, wanted: &[LockId], thread: ThreadId) -> Option<Vec<Arc<Hold>>> {
        let terms = vec![TERMS; wanted.len()];
        let mut claim = self
            .queue
            .enter(wanted.iter(), (thread, false), Moment::now())
            .claim;
        loop {
            let mut taken = match claim.take() {
                Some(claim) => claim,
                None => self.wait(wanted, thread)?,
            };
            match taken.take(&terms, terms.len(), "fenced") {
                CameWith::HandedOver(holds) | CameWith::Idle(holds) => {
                    return Some(holds.into_vec());
                }
                CameWith::Nothing => return Some(self.request(wanted, taken, thread)),
                CameWith::Unsuited(grants) => {
                    grants.iter().for_each(|grant| self.release(grant));
                    return Some(self.request(wanted, taken, thread));
                }
                CameWith::Loss => {}
            }
        }
    }

    fn wait(&self, wanted: &[LockId], thread: ThreadId) -> Option<Claim> {
        let (unparker, parker) = parker::pair();
        let wanted = Wanted {
            locks: wanted.iter().cloned().collect(),
            terms: wanted.iter().map(|_| TERMS).collect(),
            needed: wanted.len(),
            kind: "fenced",
            is_shared: false,
        };
        let waiter = Waiter::new(wanted, thread, &unparker);
        let keeps_place = thread_rng().gen_range(0..2) == 0;
        waiter.keeps_place.store(keeps_place, Ordering::Relaxed);
        if let Some(claim) = self.queue.enqueue(&waiter) {
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

    /// Acquires the locks from Redis.
    fn request(&self, wanted: &[LockId], claim: Claim, thread: ThreadId) -> Vec<Arc<Hold>> {
        let owner = OwnerId::new("client");
        let granted = loop {
            let mut redis = self.redis.lock().unwrap();
            if wanted.iter().all(|lock| !redis.owners.contains_key(lock)) {
                let tokens = redis.last_token + 1..redis.last_token + 3;
                redis.last_token += 2;
                for lock in wanted {
                    let owner = owner.as_str().to_owned();
                    redis.owners.insert(lock.clone(), owner);
                }
                // Some of the slices are over at the next unlock.
                let age = Duration::from_millis(thread_rng().gen_range(0..15));
                let asked = Moment::now().before(age);
                break Granted {
                    owner,
                    asked,
                    replied: asked,
                    terms: TERMS,
                    tokens,
                    turns: None,
                };
            }
            drop(redis);
            thread::yield_now();
        };
        let begin = |lock: &LockId| {
            let parts = (lock.clone(), LockKey::new("", &lock.key), &FENCED as _);
            let queue = &self.queue;
            queue.begin_hold_of(parts, granted.clone(), &Arc::default(), thread)
        };
        let holds: Vec<Arc<Hold>> = wanted.iter().map(begin).collect();
        claim.keep(holds.iter());
        let grants = holds.iter().map(|hold| hold.grant());
        self.redis.lock().unwrap().grants.extend(grants);
        holds
    }

    /// Checks that no other thread has a valid hold on the same locks, and that tokens rise.
    fn work(&self, holds: &[Arc<Hold>]) {
        {
            let mut inside = self.inside.lock().unwrap();
            let mut redis = self.redis.lock().unwrap();
            // A grant may be lost before its thread comes here.
            for hold in holds.iter().filter(|hold| hold.check().is_ok()) {
                for other in inside.iter().filter(|other| other.lock() == hold.lock()) {
                    assert!(other.check().is_err(), "two valid holds");
                }
                let token = hold.token().expect("each hold has a token");
                let last = redis.seen.insert(hold.lock().clone(), token);
                assert!(last.is_none_or(|last| last < token), "tokens rise");
            }
            inside.extend(holds.iter().cloned());
        }
        thread::yield_now();
        let mut inside = self.inside.lock().unwrap();
        inside.retain(|other| !holds.iter().any(|hold| Arc::ptr_eq(hold, other)));
    }

    fn unlock(&self, holds: &[Arc<Hold>]) {
        let linger = Duration::from_micros(u64::from(self.scenario.lingers));
        let levels: Vec<_> = holds
            .iter()
            .map(|hold| (hold, Unlocks::Newest, linger))
            .collect();
        for (hold, unlocked) in holds.iter().zip(self.queue.unlock(&levels)) {
            match unlocked {
                Unlocked::HandedOver | Unlocked::Idle => {}
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
        let mut redis = self.redis.lock().unwrap();
        let owner = redis.owners.get(grant.lock());
        if owner.is_some_and(|owner| owner == grant.owner().as_str()) {
            redis.owners.remove(grant.lock());
        }
    }

    /// Releases idle grants, and loses some that are held.
    fn watch(&self) {
        for _ in 0..2 * ROUNDS {
            thread::yield_now();
            self.release_idle();
            let grants = self.redis.lock().unwrap().grants.clone();
            if self.scenario.loses && !grants.is_empty() {
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
        while !self.redis.lock().unwrap().owners.is_empty() {
            assert!(!latest.is_past(), "Redis has a grant that nothing releases");
            let grants = self.redis.lock().unwrap().grants.clone();
            let held = grants
                .iter()
                .filter(|grant| grant.schedule().lease.is_some());
            assert_eq!(held.count(), 0, "a grant without a thread is held");
            self.release_idle();
        }
        let locks = self.locks.iter();
        let entered = self.queue.enter(
            locks,
            (ThreadId::numbered(THREADS + 1), false),
            Moment::now(),
        );
        assert!(entered.claim.is_some(), "all tickets are free");
    }
}
