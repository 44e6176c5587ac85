//! What semaphores, semaphores with leased permits, and latches have in common: threads wait for a
//! number in Redis. Permits or count-downs are *steps* here.

mod faults;
mod late_copies;
mod local;
mod lost_replies;

use leasehold::{CountDownLatch, Result, Semaphore};

use crate::support::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Semaphore,
    Leased,
    Latch,
}

pub const KINDS: [Kind; 3] = [Kind::Semaphore, Kind::Leased, Kind::Latch];
pub const SEMAPHORES: [Kind; 2] = [Kind::Semaphore, Kind::Leased];

/// A permit that was taken. Dropping it releases it only if it has a lease.
#[derive(Debug)]
pub struct Permit(Option<PermitGuard>);

impl Permit {
    /// Leaves the permit taken.
    pub fn keep(self) {
        std::mem::forget(self.0);
    }
}

/// One of these, of one client.
pub struct Steps {
    pub kind: Kind,
    pub client: LockClient,
    pub name: String,
}

impl Kind {
    pub fn of(self, client: &LockClient, name: &str) -> Steps {
        Steps {
            kind: self,
            client: client.clone(),
            name: name.to_owned(),
        }
    }
}

impl Steps {
    /// The same for another client.
    pub fn at(&self, client: &LockClient) -> Self {
        self.kind.of(client, &self.name)
    }

    pub fn semaphore(&self) -> Semaphore {
        self.client.semaphore(&self.name)
    }

    pub fn leased(&self) -> LeasedSemaphore {
        self.client.leased_semaphore(&self.name)
    }

    pub fn latch(&self) -> CountDownLatch {
        self.client.count_down_latch(&self.name)
    }

    /// Makes threads wait until there are this many steps. A new semaphore needs no preparation.
    pub fn close(&self, steps: u64) {
        if self.kind == Kind::Latch {
            assert!(self.latch().try_set_count(steps).unwrap());
        }
    }

    /// A step, for which threads wait.
    pub fn open(&self) -> Result<()> {
        match self.kind {
            Kind::Latch => self.latch().count_down().map(drop),
            _ => self.add(1),
        }
    }

    /// Adds permits, which may be the first.
    pub fn add(&self, permits: i64) -> Result<()> {
        match self.kind {
            Kind::Semaphore => self.semaphore().add_permits(permits),
            Kind::Leased => self.leased().add_permits(permits),
            Kind::Latch => panic!("it has no permits"),
        }
    }

    /// Waits without a limit, except for that of the library.
    pub fn wait(&self) -> Result<Permit> {
        match self.kind {
            Kind::Semaphore => self.semaphore().acquire(1).map(none),
            Kind::Leased => self.leased().acquire().map(Some).map(Permit),
            Kind::Latch => self.latch().wait().map(none),
        }
    }

    pub fn wait_for(&self, time: Duration) -> Result<Option<Permit>> {
        let is_taken = match self.kind {
            Kind::Semaphore => self.semaphore().try_acquire(1, time)?,
            Kind::Leased => {
                let guard = self.leased().try_acquire(time, Lease::RENEWED)?;
                return Ok(guard.map(|guard| Permit(Some(guard))));
            }
            Kind::Latch => self.latch().wait_for(time)?,
        };
        Ok(is_taken.then_some(Permit(None)))
    }

    /// Waits until the interrupt is raised, at most for `limit` if there is one.
    pub fn wait_interruptibly(&self, limit: Option<Duration>, end: &Interrupt) -> Result<()> {
        let (semaphore, leased, latch) = (self.semaphore(), self.leased(), self.latch());
        let lease = Lease::RENEWED;
        let Some(limit) = limit else {
            return match self.kind {
                Kind::Semaphore => semaphore.acquire_interruptibly(1, end),
                Kind::Leased => leased.acquire_interruptibly(lease, end).map(drop),
                Kind::Latch => latch.wait_interruptibly(end),
            };
        };
        match self.kind {
            Kind::Semaphore => {
                let taken = semaphore.try_acquire_interruptibly(1, limit, end);
                taken.map(drop)
            }
            Kind::Leased => {
                let guard = leased.try_acquire_interruptibly(limit, lease, end);
                guard.map(drop)
            }
            Kind::Latch => latch.wait_for_interruptibly(limit, end).map(drop),
        }
    }

    pub fn give_back(&self, permit: Permit) -> Result<()> {
        match (permit.0, self.kind) {
            (Some(guard), _) => guard.release(),
            (None, Kind::Semaphore) => self.semaphore().release(1),
            (None, _) => Ok(()),
        }
    }

    /// The number of free permits, or the count.
    pub fn left(&self) -> Result<i64> {
        match self.kind {
            Kind::Semaphore => self.semaphore().available(),
            Kind::Leased => self.leased().available(),
            Kind::Latch => self.latch().count().map(|count| count as i64),
        }
    }
}

fn none(_: ()) -> Permit {
    Permit(None)
}

#[test]
fn a_wait_ends_in_time_and_by_an_interrupt_and_the_next_thread_goes_on() {
    let server = Server::start();
    let client = client(&server.url());
    for kind in KINDS {
        let steps = kind.of(&client, &unique("steps"));
        steps.close(1);
        for wait in [Duration::ZERO, A_WHILE.get()] {
            let start = Instant::now();
            assert!(steps.wait_for(wait).unwrap().is_none(), "{kind:?}");
            let took = start.elapsed();
            assert!(
                took >= wait && took < wait + SLIP.get(),
                "{kind:?}: {took:?}"
            );
        }
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let interrupted = [None, Some(SOON.get() * 6)].map(|limit| {
                let (steps, interrupt) = (&steps, &interrupt);
                scope.spawn(move || steps.wait_interruptibly(limit, interrupt))
            });
            stay_waiting(&interrupted);
            let next = scope.spawn(|| steps.wait().unwrap());
            stay_waiting([&next]);
            interrupt.interrupt();
            within(SLIP.get(), "the interrupt", || {
                for thread in interrupted {
                    assert_error!(thread.join().unwrap(), Interrupted, "{kind:?}");
                }
            });
            steps.open().unwrap();
            steps.give_back(next.join().unwrap()).unwrap();
        });
        // Raised before, although there is a step.
        for limit in [None, Some(SOON.get())] {
            let result = steps.wait_interruptibly(limit, &interrupt);
            assert_error!(result, Interrupted, "{kind:?}");
            steps.wait_interruptibly(limit, &Interrupt::new()).unwrap();
            if kind == Kind::Semaphore {
                steps.open().unwrap();
            }
        }
    }
}

#[test]
fn a_key_of_another_type_is_reported_by_each_call_and_stays() {
    let server = Server::start();
    let client = client(&server.url());
    let (semaphore, leased) = (client.semaphore("key"), client.leased_semaphore("key"));
    let latch = client.count_down_latch("key");
    for (write, found) in [
        ("HSET key field 1", "a hash"),
        ("SET key text", "not a number"),
        ("SET key 1.5", "not a number"),
    ] {
        server.run("FLUSHALL");
        server.run(write);
        let dump = || -> Vec<u8> { server.query("DUMP key") };
        let before = dump();
        for result in [
            leased.acquire().map(drop),
            leased.permits().map(drop),
            leased.set_permits(9),
            latch.try_set_count(1).map(drop),
            latch.count_down().map(drop),
            latch.wait(),
            semaphore.try_set_permits(1).map(drop),
            semaphore.acquire(1),
            semaphore.release(1),
            semaphore.drain().map(drop),
            semaphore.available().map(drop),
        ] {
            assert_error!(result, WrongType, "{write}");
            let text = result.unwrap_err().to_string();
            assert!(text.contains(found) && text.contains("key"), "{text}");
        }
        assert_eq!(dump(), before, "{write}");
    }
    server.run("SET key 3");
    server.run("LPUSH {key}:timeout 1");
    assert_error!(leased.acquire(), WrongType);
    assert_eq!(server.size(), 2);
}
