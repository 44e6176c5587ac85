//! A thread gives up its wait at the moment at which a message makes the client request the lock.

use crate::support::prelude::*;

/// Enough that many of the interrupts come while the request is on its way.
const ROUNDS: u32 = 300;

/// The request is sent by the thread that receives the message. If the waiting thread has gone by
/// then, nothing holds the lock that Redis grants.
#[test]
fn a_lock_that_is_granted_to_an_interrupted_thread_is_free_at_once() {
    let server = Server::start();
    let name = unique("given-up");
    let (holder, waiter) = (client(&server.url()), client(&server.url()));
    let (held, wanted) = (holder.reentrant_lock(&name), waiter.reentrant_lock(&name));
    let mut interrupted = 0;
    for round in 0..ROUNDS {
        // A hold without a holder would last for a lease.
        let is_free = held.try_lock(LEASE.get() / 2, Lease::RENEWED).unwrap();
        assert!(is_free, "round {round}");
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let guard = wanted.acquire_interruptibly(Lease::RENEWED, &interrupt);
                guard.map(drop)
            });
            in_redis::await_listeners(&server, &name, 1);
            held.unlock().unwrap();
            // From at once to some microseconds later.
            for _ in 0..round {
                std::hint::spin_loop();
            }
            interrupt.interrupt();
            match waiting.join().unwrap() {
                Ok(()) => {}
                Err(Error::Interrupted { .. }) => interrupted += 1,
                Err(other) => panic!("{other}"),
            }
        });
    }
    assert!(interrupted > 0, "no interrupt came in time");
    eventually("the lock to be free", || !held.is_locked().unwrap());
}
