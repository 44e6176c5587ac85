//! Threads of one client that read and write under one read-write lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::base::clock::Moment;
use crate::base::key::{Family, LockKey};
use crate::base::owner::{OwnerId, ThreadId};
use crate::base::parker;
use crate::error::LostReason;
use crate::lease::{Renewals, Terms};
use crate::local::{
    CameWith, Claim, Grant, Granted, Hold, LocalQueue, LockId, Unlocked, Unlocks, Waiter, Wanted,
};
use crate::protocol::{Kind, READ, WRITE};
use crate::watchdog::{Renew, Step};

const THREADS: u64 = 3;
const ROUNDS: usize = 3;
const TERMS: Terms = Terms {
    millis: 30_000,
    renewals: Renewals::Unlimited,
};

/// What may happen besides locking and unlocking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readers {
    pub gives_up: bool,
    pub loses: bool,
    pub lingers: bool,
}

/// What the threads share.
struct World {
    scenario: Readers,
    queue: Arc<LocalQueue>,
    key: LockKey,
    lock: LockId,
    redis: Mutex<Redis>,
    /// The holds of the threads that are inside.
    inside: Mutex<Vec<Arc<Hold>>>,
}

#[derive(Default)]
struct Redis {
    readers: HashSet<String>,
    writer: Option<String>,
    grants: Vec<Arc<Grant>>,
}

fn kind_of(is_shared: bool) -> &'static Kind {
    if is_shared { &READ } else { &WRITE }
}

impl Readers {
    pub fn run(self) {
        let key = LockKey::of(Family::ReadWriteLock, "", "lock");
        let world = Arc::new(World {
            scenario: self,
            queue: Arc::default(),
            lock: LockId::new(1, &key),
            key,
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
    /// One thread reads, writes, or first writes and then reads.
    fn round(&self, thread: ThreadId) {
        let is_shared = thread_rng().gen_range(0..3) > 0;
        let Some(hold) = self.acquire(thread, is_shared) else {
            return;
        };
        self.work(&hold);
        let is_downgraded = !is_shared && thread_rng().gen_range(0..2) == 0;
        let reading = (is_downgraded && hold.check().is_ok())
            .then(|| self.acquire(thread, true))
            .flatten();
        self.unlock(&hold);
        if let Some(reading) = reading {
            self.work(&reading);
            self.unlock(&reading);
        }
    }

    fn acquire(&self, thread: ThreadId, is_shared: bool) -> Option<Arc<Hold>> {
        let who = (thread, is_shared);
        let mut entered = self
            .queue
            .enter([&self.lock].into_iter(), who, Moment::now());
        let within = entered.other.take();
        loop {
            let mut claim = match entered.claim.take() {
                Some(claim) => claim,
                None => self.wait(thread, is_shared)?,
            };
            match claim.take(&[TERMS], 1, kind_of(is_shared).name) {
                CameWith::HandedOver(holds) | CameWith::Idle(holds) => {
                    return holds.first().cloned();
                }
                CameWith::Nothing => return self.request(claim, who, within.as_deref()),
                CameWith::Unsuited(grants) => {
                    grants.iter().for_each(|grant| self.release(grant));
                    return self.request(claim, who, within.as_deref());
                }
                CameWith::Loss => {}
            }
        }
    }

    fn wait(&self, thread: ThreadId, is_shared: bool) -> Option<Claim> {
        let (unparker, parker) = parker::pair();
        let wanted = Wanted {
            locks: [self.lock.clone()].into_iter().collect(),
            terms: [TERMS].into_iter().collect(),
            needed: 1,
            kind: kind_of(is_shared).name,
            is_shared,
        };
        let waiter = Waiter::new(wanted, thread, &unparker);
        if let Some(claim) = self.queue.enqueue(&waiter) {
            return Some(claim);
        }
        let gives_up = self.scenario.gives_up && thread_rng().gen_range(0..3) == 0;
        loop {
            if let Some(claim) = self.queue.claim_of(&waiter) {
                return Some(claim);
            }
            if gives_up {
                thread::yield_now();
                // What it gets in the last moment is given back, as after an interrupt.
                drop(self.queue.leave(&waiter));
                return None;
            }
            parker.sleep(Duration::MAX);
        }
    }

    /// Acquires the lock from Redis; `None` if the hold `within` which it does so is lost.
    fn request(
        &self,
        claim: Claim,
        (thread, is_shared): (ThreadId, bool),
        within: Option<&Hold>,
    ) -> Option<Arc<Hold>> {
        let owner = OwnerId::new("client");
        loop {
            let mut redis = self.redis.lock().unwrap();
            let own = within.map(|hold| hold.grant().owner().clone());
            let own = own.as_ref().map(OwnerId::as_str);
            let is_written = redis.writer.is_some() && redis.writer.as_deref() != own;
            if within.is_some() && redis.writer.as_deref() != own {
                return None;
            }
            if !is_written && is_shared {
                redis.readers.insert(owner.as_str().to_owned());
                break;
            }
            if !is_written && redis.readers.is_empty() {
                redis.writer = Some(owner.as_str().to_owned());
                break;
            }
            drop(redis);
            // The watchdog releases what became idle while this thread requests the lock.
            self.release_idle();
            thread::yield_now();
        }
        // Some of the grants are too old to be joined or handed over.
        let age = Duration::from_millis(thread_rng().gen_range(0..80));
        let asked = Moment::now().before(age);
        let granted = Granted {
            owner,
            asked,
            replied: asked,
            terms: TERMS,
            tokens: 0..0,
            turns: None,
        };
        let place = (self.lock.clone(), self.key.clone(), kind_of(is_shared));
        let hold = self
            .queue
            .begin_hold_of(place, granted, &Arc::default(), thread);
        claim.keep([&hold].into_iter());
        self.redis.lock().unwrap().grants.push(hold.grant());
        Some(hold)
    }

    /// Checks that no thread reads beside a writer.
    fn work(&self, hold: &Arc<Hold>) {
        {
            let mut inside = self.inside.lock().unwrap();
            // A grant may be lost before its thread comes here.
            if hold.check().is_ok() {
                let others = inside
                    .iter()
                    .filter(|other| other.thread() != hold.thread());
                for other in others.filter(|other| !(other.is_shared() && hold.is_shared())) {
                    assert!(other.check().is_err(), "a writer is not alone");
                }
            }
            inside.push(Arc::clone(hold));
        }
        thread::yield_now();
        let mut inside = self.inside.lock().unwrap();
        inside.retain(|other| !Arc::ptr_eq(hold, other));
    }

    fn unlock(&self, hold: &Arc<Hold>) {
        let linger = Duration::from_micros(u64::from(self.scenario.lingers));
        match self.queue.unlock(&[(hold, Unlocks::Newest, linger)])[..] {
            [Unlocked::HandedOver | Unlocked::Idle | Unlocked::Shared] => {}
            [Unlocked::Last] => {
                self.release(&hold.grant());
                self.queue.close(&[(hold, None)]);
            }
            [Unlocked::Lost { last, .. }] => {
                assert!(last, "it has one level");
                self.queue.close(&[(hold, None)]);
            }
            ref other => panic!("{other:?}"),
        }
        let again = self
            .queue
            .unlock(&[(hold, Unlocks::Newest, Duration::ZERO)]);
        assert_eq!(again[..], [Unlocked::NotHeld]);
    }

    fn release(&self, grant: &Grant) {
        let mut redis = self.redis.lock().unwrap();
        let owner = grant.owner().as_str();
        redis.readers.remove(owner);
        redis.writer.take_if(|writer| writer == owner);
    }

    /// Releases idle grants, and loses some that are held, or one of the holds on them.
    fn watch(&self) {
        for _ in 0..2 * ROUNDS {
            thread::yield_now();
            self.release_idle();
            let grants = self.redis.lock().unwrap().grants.clone();
            if !self.scenario.loses || grants.is_empty() {
                continue;
            }
            if thread_rng().gen_range(0..2) == 0 {
                let grant = &grants[thread_rng().gen_range(0..grants.len())];
                self.release(grant);
                grant.lose(LostReason::Deleted);
            } else {
                let hold = self.inside.lock().unwrap().first().cloned();
                if let Some(hold) = hold.filter(|hold| hold.is_shared()) {
                    hold.lose(LostReason::RenewalLimit);
                    if hold.grant().has_ended() {
                        self.release(&hold.grant());
                    }
                }
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

    fn is_free(&self) -> bool {
        let redis = self.redis.lock().unwrap();
        redis.readers.is_empty() && redis.writer.is_none()
    }

    /// The lock is free, here and in Redis.
    fn check_end(&self) {
        // An idle grant is due after a microsecond.
        let latest = Moment::now().after(Duration::from_secs(10));
        while !self.is_free() {
            assert!(!latest.is_past(), "Redis has a grant that nothing releases");
            let grants = self.redis.lock().unwrap().grants.clone();
            let held = grants
                .iter()
                .filter(|grant| grant.schedule().lease.is_some());
            assert_eq!(held.count(), 0, "a grant without a thread is held");
            self.release_idle();
        }
        let who = (ThreadId::numbered(THREADS + 1), false);
        let entered = self
            .queue
            .enter([&self.lock].into_iter(), who, Moment::now());
        assert!(entered.claim.is_some(), "the ticket is free");
    }
}
