//! The server forgets its scripts, again and again.

use super::LONG;
use crate::faults::deployment::Deployment;
use crate::support::prelude::*;

everywhere! {
    ;
    repeated_script_flushes_affect_no_call
}

/// Acquires, nests and unlocks until `stop`, never at the same time as another thread.
fn work(lock: &ReentrantLock, busy: &AtomicBool, stop: &AtomicBool) -> leasehold::Result<u64> {
    let mut times = 0;
    while !stop.load(Ordering::Relaxed) {
        let guard = lock.acquire()?;
        assert!(!busy.swap(true, Ordering::SeqCst), "two holders");
        let nested = lock.lock().and_then(|()| lock.unlock());
        let held = nested.and_then(|()| guard.check());
        // Also if the lock failed: the error concerns this thread only.
        busy.store(false, Ordering::SeqCst);
        held?;
        guard.unlock()?;
        times += 1;
    }
    Ok(times)
}

fn repeated_script_flushes_affect_no_call(deployment: &Deployment) {
    // Long enough that no lease ends on a machine that is busy with this test.
    let clients = [0, 1].map(|_| {
        let client = deployment.builder().watchdog_lease(LONG.get()).build();
        client.expect("the settings are valid")
    });
    let kept = clients[0].reentrant_lock(&unique("kept"));
    let kept = kept.acquire().expect("it is free");
    let contended: [(String, AtomicBool); 2] =
        [0, 1].map(|_| (unique("scripts"), AtomicBool::new(false)));
    let stop = AtomicBool::new(false);
    let done: Vec<u64> = thread::scope(|scope| {
        // Four threads for each lock, two of each client.
        let workers: Vec<_> = (0..8)
            .map(|at| {
                let (name, busy) = &contended[at % 2];
                let lock = clients[at / 2 % 2].reentrant_lock(name);
                let stop = &stop;
                scope.spawn(move || work(&lock, busy, stop))
            })
            .collect();
        let mut servers: Vec<_> = deployment
            .servers()
            .iter()
            .map(|s| s.connection())
            .collect();
        for redis in &servers {
            // A read with a timeout fails if the process is stopped meanwhile. The server has a
            // timeout of its own.
            redis.set_read_timeout(None).expect("a setting");
        }
        let end = Instant::now() + LEASE.get() * 3;
        while Instant::now() < end {
            for redis in &mut servers {
                let flushed = redis::cmd("SCRIPT").arg("FLUSH").exec(redis);
                flushed.expect("the server replies");
            }
        }
        stop.store(true, Ordering::Relaxed);
        let workers = workers.into_iter();
        workers
            .map(|worker| worker.join().expect("no panic").expect("no error"))
            .collect()
    });
    // Between processes there is no order, so one may have more holds than another.
    assert!(done.iter().all(|times| *times > 0), "all get on: {done:?}");
    assert!(done.iter().sum::<u64>() > 50, "all get on: {done:?}");
    kept.check().expect("it is renewed all the time");
    for stats in clients.map(|client| client.stats()) {
        assert_eq!((stats.lost, stats.renewals_failed), (0, 0), "{stats:?}");
    }
}
