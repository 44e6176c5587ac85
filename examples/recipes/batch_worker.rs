//! A batch worker that ends in time after SIGTERM.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, select};
use leasehold::{Error, Interrupt, Lease, LockClient, LockGuard, Result};

/// How long a shutdown may take if Redis does not reply.
const TO_RELEASE: Duration = Duration::from_secs(5);

/// Returns what receives SIGTERM and Ctrl-C: the crate `ctrlc` with its feature `termination`.
pub fn signals() -> std::result::Result<Receiver<()>, ctrlc::Error> {
    let (sender, signals) = bounded(1);
    ctrlc::set_handler(move || sender.try_send(()).unwrap_or(()))?;
    Ok(signals)
}

/// Does the jobs in `queue`, each under the lock of its name, until none is left or a signal comes.
/// Then no job begins, no thread waits for a lock, and jobs that run have the time `to_end`.
pub fn work_off(
    client: &LockClient,
    queue: &Receiver<String>,
    job: impl Fn(&LockGuard) -> Result<()> + Clone + Send + 'static,
    signals: &Receiver<()>,
    to_end: Duration,
) -> Result<()> {
    let stop = Interrupt::new();
    let (alive, none_alive) = bounded::<()>(0);
    for _ in 0..4 {
        let (client, queue, stop) = (client.clone(), queue.clone(), stop.clone());
        let (job, alive) = (job.clone(), alive.clone());
        thread::spawn(move || {
            let _alive = alive;
            while !stop.is_interrupted()
                && let Ok(name) = queue.try_recv()
            {
                let lock = client.reentrant_lock(&name);
                match lock.acquire_interruptibly(Lease::RENEWED, &stop) {
                    Ok(guard) => job(&guard).and(guard.unlock()),
                    Err(Error::Interrupted { .. }) => break,
                    Err(error) => Err(error),
                }
                .unwrap_or_else(|error| eprintln!("{name}: {error}"));
            }
        });
    }
    drop(alive);
    select! {
        recv(none_alive) -> _ => return Ok(()),
        recv(signals) -> _ => stop.interrupt(),
    }
    match none_alive.recv_timeout(to_end) {
        // A job still runs. Its lock is lost to it, and released.
        Err(RecvTimeoutError::Timeout) => client.shutdown(TO_RELEASE),
        _ => Ok(()),
    }
}

#[test]
fn sigterm_ends_waits_and_gives_running_jobs_their_time() -> Result<()> {
    use leasehold::testing::InMemoryRedis;

    let signals = signals().unwrap();
    for to_end in [Duration::from_secs(60), Duration::ZERO] {
        let redis = InMemoryRedis::start()?;
        let client = redis.client()?;
        let (jobs, queue) = crossbeam_channel::unbounded();
        // Four threads: one does the first job, and three wait for its lock.
        for name in ["a", "a", "a", "a", "b"] {
            jobs.send(name.to_owned()).unwrap();
        }
        let ((release, released), (end, ended)) = (bounded::<()>(0), bounded(5));
        let job = move |guard: &LockGuard| {
            let _ = released.recv();
            end.send(guard.check().is_ok()).unwrap();
            Ok(())
        };
        let await_waiting = |threads| {
            let began = std::time::Instant::now();
            while client.stats().waiting != threads {
                assert!(began.elapsed() < Duration::from_secs(10));
                thread::yield_now();
            }
        };
        let worker = {
            let (client, queue, signals) = (client.clone(), queue.clone(), signals.clone());
            thread::spawn(move || work_off(&client, &queue, job, &signals, to_end))
        };
        await_waiting(3);
        let pid = std::process::id().to_string();
        let mut kill = std::process::Command::new("kill");
        kill.args(["-TERM", &pid]).status().unwrap();
        await_waiting(0);
        // The job ends within its time, or after it.
        let release = to_end.is_zero().then_some(release);
        worker.join().expect("no panic")?;
        drop(release);
        assert!(!redis.client()?.reentrant_lock("a").is_locked()?);
        let held_until_their_ends: Vec<bool> = ended.iter().collect();
        assert_eq!(held_until_their_ends, [!to_end.is_zero()]);
        assert_eq!(queue.try_recv().unwrap(), "b");
    }
    Ok(())
}
