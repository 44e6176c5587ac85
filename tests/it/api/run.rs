//! What runs under a lock can be told from what did not run, so no retry does the work twice.

use leasehold::{LockGuard, Result, RunError};

use crate::support::prelude::*;

/// Calls until the work has run, as the documentation advises, and restores the server between the
/// calls. Returns how often the work has run.
fn run_with_retries(
    (lock, proxied): (&ReentrantLock, &ProxiedServer),
    work: impl Fn(&LockGuard) -> Result<u32>,
) -> (u32, Result<u32, RunError<Error, u32>>) {
    let times = AtomicU32::new(0);
    let result = loop {
        let run = lock.run(Lease::RENEWED, |guard| {
            times.fetch_add(1, Ordering::SeqCst);
            work(guard)
        });
        match run {
            Err(RunError::NotRun(error)) if error.is_transient() => set_cut_off(proxied, false),
            result => break result,
        }
    };
    (times.into_inner(), result)
}

/// A connection that is refused, for the client and all that it opens.
fn set_cut_off(proxied: &ProxiedServer, is_cut_off: bool) {
    proxied.proxy.refuse(is_cut_off);
    proxied.proxy.cut_all();
}

#[test]
fn work_runs_once_although_the_server_is_cut_off_before_and_during_it() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(millis(200)).build().unwrap();
    let lock = client.reentrant_lock("order:pay");

    set_cut_off(&proxied, true);
    let not_run = lock.try_run(Duration::ZERO, Lease::RENEWED, |_| Ok::<_, Error>(7));
    assert_matches!(&not_run, Err(RunError::NotRun(error)) if error.is_transient());
    let text = not_run.unwrap_err().to_string();
    assert!(text.starts_with("the work has not run: "), "{text}");
    assert!(text.contains("order:pay"), "{text}");
    let (times, result) = run_with_retries((&lock, &proxied), |_| Ok(7));
    assert_eq!((times, result.unwrap()), (1, 7));

    type Failing<'a> = Box<dyn Fn(&LockGuard) -> Result<u32> + 'a>;
    let other = proxied.builder(millis(200)).build().unwrap();
    let nested = other.reentrant_lock("account");
    let works: [Failing<'_>; 3] = [
        Box::new(|guard| guard.extend(SOON.get()).map(|()| 1)),
        Box::new(|guard| guard.confirm().map(|()| 1)),
        Box::new(|_| {
            nested
                .try_lock(Duration::ZERO, Lease::RENEWED)
                .map(u32::from)
        }),
    ];
    for work in &works {
        // The server is back for the unlock.
        let (times, result) = run_with_retries((&lock, &proxied), |guard| {
            set_cut_off(&proxied, true);
            let result = work(guard);
            set_cut_off(&proxied, false);
            result
        });
        assert_eq!(times, 1);
        assert_matches!(result, Err(RunError::Failed(error)) if error.is_transient());

        // The server stays away.
        let (times, result) = run_with_retries((&lock, &proxied), |guard| {
            set_cut_off(&proxied, true);
            work(guard)
        });
        assert_eq!(times, 1);
        let Err(RunError::Unlock { error, result }) = result else {
            panic!("{result:?}");
        };
        assert!(is_not_released(&Err::<(), _>(*error)));
        assert!(result.unwrap_err().is_transient());
        set_cut_off(&proxied, false);
    }
}

#[test]
fn a_run_whose_lock_is_lost_returns_what_its_work_returned() {
    let server = Server::start();
    let [holder, other] = [(); 2].map(|()| client(&server.url()));
    let lock = holder.reentrant_lock("order:pay");
    for worked in [Ok(7), Err("too much")] {
        let run = lock.run(Lease::RENEWED, |_| {
            assert!(other.force_unlock("order:pay").unwrap());
            worked
        });
        let text = run.as_ref().unwrap_err().to_string();
        let outcome = worked.map_or("the work failed (too much)", |_| "the work succeeded");
        assert!(
            text.starts_with(outcome) && text.contains("was lost"),
            "{text}"
        );
        let Err(RunError::Unlock { error, result }) = run else {
            panic!("{run:?}");
        };
        assert_eq!(result, worked);
        assert_lost(&Err::<(), _>(*error), LostReason::Deleted);
        assert_eq!(lock.hold_count(), 0);
    }
}

#[test]
fn a_run_always_unlocks_and_may_give_up() {
    let server = Server::start();
    let [holder, other] = [(); 2].map(|()| client(&server.url()));
    let lock = holder.reentrant_lock("order:pay");
    let failed = || -> Result<(), Box<dyn std::error::Error>> {
        Ok(lock.run(Lease::RENEWED, |_| Err("too much"))?)
    };
    assert_eq!(
        failed().unwrap_err().to_string(),
        "the work failed: too much"
    );
    let panicked = thread::scope(|scope| {
        let run = || lock.run(Lease::RENEWED, |_| -> Result<()> { panic!("in the work") });
        scope.spawn(run).join()
    });
    assert!(panicked.is_err() && !lock.is_locked().unwrap());

    let guard = other.reentrant_lock("order:pay").try_acquire_now();
    let guard = guard.unwrap().expect("it is unlocked");
    let (wait, start) = (A_WHILE.get(), Instant::now());
    let run = lock.try_run(wait, Lease::RENEWED, |_| -> Result<()> {
        panic!("another client holds the lock")
    });
    assert_eq!(run.unwrap(), None);
    assert!(start.elapsed() >= wait);
    assert!(lock.try_acquire_for(wait).unwrap().is_none());
    assert!(start.elapsed() >= wait * 2);
    guard.unlock().unwrap();
}
