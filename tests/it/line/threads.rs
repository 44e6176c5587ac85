//! The threads of one client share its place in a line.

use super::*;

/// What a thread waits for: one of a kind of lock, or a permit of a kind of semaphore.
#[derive(Clone, Copy)]
enum Wanted {
    Lock(Make),
    Leased,
    Permit,
}

const WANTED: [Wanted; 5] = [
    Wanted::Lock(PLAIN),
    Wanted::Lock(WRITE),
    Wanted::Lock(FAIR),
    Wanted::Leased,
    Wanted::Permit,
];

const NAME: &str = "wanted";

impl Wanted {
    /// Acquires it, uses it by `then`, and releases it. False if that takes longer than `wait`, or
    /// the interrupt is raised.
    fn acquire(
        self,
        client: &LockClient,
        (wait, interrupt): (Duration, &Interrupt),
        then: impl FnOnce(),
    ) -> bool {
        let is_acquired = match self {
            Self::Lock(make) => {
                let lock = make(client, NAME);
                let locked = lock.try_lock_interruptibly(wait, Lease::RENEWED, interrupt);
                if let Ok(true) = locked {
                    then();
                    lock.unlock().unwrap();
                }
                locked
            }
            Self::Leased => {
                let semaphore = client.leased_semaphore(NAME);
                let permit = semaphore.try_acquire_interruptibly(wait, Lease::RENEWED, interrupt);
                permit.map(|permit| match permit {
                    Some(permit) => {
                        then();
                        permit.release().unwrap();
                        true
                    }
                    None => false,
                })
            }
            Self::Permit => {
                let semaphore = client.semaphore(NAME);
                let taken = semaphore.try_acquire_interruptibly(1, wait, interrupt);
                if let Ok(true) = taken {
                    then();
                    semaphore.release(1).unwrap();
                }
                taken
            }
        };
        let is_interrupted = matches!(is_acquired, Err(Error::Interrupted { .. }));
        !is_interrupted && is_acquired.unwrap()
    }

    /// Makes one permit, if it is a semaphore.
    fn prepare(self, client: &LockClient) {
        match self {
            Self::Lock(_) => {}
            Self::Leased => _ = client.leased_semaphore(NAME).try_set_permits(1).unwrap(),
            Self::Permit => _ = client.semaphore(NAME).try_set_permits(1).unwrap(),
        }
    }

    /// The number of clients that wait.
    fn waiting(self, server: &Server) -> usize {
        match self {
            Self::Lock(make) if std::ptr::fn_addr_eq(make, FAIR) => {
                server.ask(redis::cmd("LLEN").arg(format!("redisson_lock_queue:{{{NAME}}}")))
            }
            _ => server.ask(redis::cmd("ZCOUNT").arg(line(NAME)).arg(1e15).arg("inf")),
        }
    }
}

/// Two threads of a client wait before another client, and the first one gives up.
fn next_thread_keeps_the_turn(wanted: Wanted, is_interrupted: bool) {
    let server = Server::start();
    let [holder, ours, other] = [(); 3].map(|()| client(&server.url()));
    wanted.prepare(&holder);
    let (got, order) = unbounded();
    let (held, is_held) = bounded(0);
    let (release, released) = bounded::<()>(0);
    let (interrupt, never) = (Interrupt::new(), Interrupt::new());
    thread::scope(|scope| {
        let (server, interrupt, never) = (&server, &interrupt, &never);
        scope.spawn(|| {
            let hold = || {
                held.send(()).unwrap();
                // With a limit, so that no failed test hangs.
                released.recv_timeout(SOON.get()).unwrap_or_default();
            };
            assert!(wanted.acquire(&holder, (SOON.get(), never), hold));
        });
        is_held.recv().unwrap();
        let next = |client, who: &'static str| {
            let got = &got;
            move || wanted.acquire(client, (SOON.get(), never), || got.send(who).unwrap())
        };
        let wait = if is_interrupted {
            SOON.get()
        } else {
            millis(700)
        };
        let ours = &ours;
        let first = scope.spawn(move || wanted.acquire(ours, (wait, interrupt), || ()));
        eventually("the first to wait", || wanted.waiting(server) == 1);
        let second = scope.spawn(next(ours, "the next thread"));
        stay_waiting([&second]);
        let third = scope.spawn(next(&other, "the other client"));
        eventually("the other client to wait", || wanted.waiting(server) == 2);
        if is_interrupted {
            interrupt.interrupt();
        }
        assert!(!first.join().unwrap(), "it gives up");
        let places = wanted.waiting(server);
        release.send(()).unwrap();
        assert_eq!(places, 2, "the place stays");
        assert!(second.join().unwrap() && third.join().unwrap());
    });
    drop(got);
    let order: Vec<_> = order.iter().collect();
    assert_eq!(order, ["the next thread", "the other client"]);
    assert_eq!(wanted.waiting(&server), 0);
}

#[test]
fn the_turn_of_a_thread_that_gives_up_is_that_of_the_next_thread() {
    thread::scope(|scope| {
        for wanted in WANTED {
            for is_interrupted in [false, true] {
                scope.spawn(move || next_thread_keeps_the_turn(wanted, is_interrupted));
            }
        }
    });
}
