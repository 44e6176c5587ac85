//! A process that is killed (SIGKILL) releases its locks within one lease, and blocks no other
//! process.

use super::deployment::{self, Deployment};
use super::kinds::{self, Kind};
use crate::support::prelude::*;

const QUEUE: usize = 4;

everywhere! {
    a_killed_holder_of_three_levels_with_a_queue_releases_them_all_within_a_lease
    a_killed_waiter_blocks_no_other_client;
}

/// The role: a thread that acquires the lock `levels` times, and threads that wait for it in the
/// queue.
pub fn hold_and_queue(arguments: &[&str]) {
    let [target, kind, name, levels, queue] = child::named(arguments);
    let kind = kinds::named(kind);
    let levels: u32 = levels.parse().expect("a number of levels");
    let queue: usize = queue.parse().expect("a number of threads");
    let client = deployment::builder_of(target).build().unwrap();
    let lock = (kind.lock)(&client, name);
    let rival = (kind.rival)(&client, name);
    for _ in 0..levels {
        lock.lock().expect("it is free");
    }
    if levels > 0 {
        child::send_line("held");
    }
    thread::scope(|scope| {
        for _ in 0..queue {
            scope.spawn(|| {
                child::send_line("queues");
                pair(&*rival);
            });
        }
        child::read_line();
        for _ in 0..levels {
            lock.unlock().expect("it is held");
        }
    });
}

fn start(deployment: &Deployment, kind: &Kind, name: &str, levels: u32, queue: usize) -> Process {
    let arguments = [
        &deployment.target(),
        kind.name,
        name,
        &levels.to_string(),
        &queue.to_string(),
    ];
    let process = Process::start("hold_and_queue", &arguments);
    if levels > 0 {
        assert_eq!(process.read_line(), "held");
    }
    for _ in 0..queue {
        assert_eq!(process.read_line(), "queues");
    }
    process
}

/// Threads of two other processes wait for the lock of the killed process. The first gets it when
/// the lease ends, not earlier, and the others get it right after.
fn a_killed_holder_releases_its_lock(
    deployment: &Deployment,
    kind: &Kind,
    levels: u32,
    queue: usize,
) {
    let name = unique(kind.name);
    let server = deployment.server_of(&name);
    let mut holder = start(deployment, kind, &name, levels, queue);
    let owner = in_redis::holder_with_count(server, &name, levels);
    let clients = [deployment.client(), deployment.client()];
    thread::scope(|scope| {
        let waiters = clients.each_ref().map(|client| {
            scope.spawn(|| {
                let lock = (kind.rival)(client, &name);
                let guard = lock.acquire().expect("Redis replies");
                let taken = Instant::now();
                let seen = in_redis::holders(server, &name);
                guard.unlock().expect("it is held");
                (taken, seen)
            })
        });
        eventually("all to listen", || in_redis::listeners(server, &name) >= 2);
        throughout(LEASE.get() * 3 / 2, "held by a process that lives", || {
            in_redis::holders(server, &name) == owner
        });
        // Stopped first, so that the remaining lease is read at the moment of death.
        holder.pause();
        let stopped = Instant::now();
        let left = in_redis::time_to_live(server, &name);
        holder.kill();
        let mut taken = Vec::new();
        for waiter in waiters {
            let (at, seen) = waiter.join().expect("it has the lock in the end");
            let is_new = seen.len() == 1 && seen[0].1 == 1 && seen[0].0 != owner[0].0;
            assert!(is_new, "a hold of the killed process is left: {seen:?}");
            taken.push(at - stopped);
        }
        taken.sort_unstable();
        let is_in_time = taken[0] + SLIP.get() >= left && taken[1] <= left + SLIP.get();
        assert!(is_in_time, "{left:?} were left, and it took {taken:?}");
    });
    assert!(in_redis::is_free(server, &name));
}

/// The threads in the local queue die with the holder, and no message is sent to them.
fn a_killed_holder_of_three_levels_with_a_queue_releases_them_all_within_a_lease(
    deployment: &Deployment,
) {
    kinds::each(|kind| a_killed_holder_releases_its_lock(deployment, kind, 3, QUEUE));
}

/// A process is killed while it waits for the lock of this one. The next waiting process gets the
/// lock at its release, not after a lease.
fn a_killed_waiter_blocks_no_other(deployment: &Deployment, kind: &Kind, queue: usize) {
    let name = unique(kind.name);
    let server = deployment.server_of(&name);
    let ours = deployment.client();
    let held = (kind.lock)(&ours, &name);
    // So long that no waiter gets the lock by its end.
    let lease = SOON.get() * 6;
    held.lock_with(Lease::fixed(lease)).expect("it is free");
    let mut killed = start(deployment, kind, &name, 0, queue);
    in_redis::await_listeners(server, &name, 1);
    let others = deployment.client();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| takes(&*(kind.rival)(&others, &name)));
        eventually("both to listen", || in_redis::listeners(server, &name) == 2);
        killed.kill();
        in_redis::await_listeners(server, &name, 1);
        within(SLIP.get() * 2, "from release to hold", || {
            held.unlock().expect("it is held");
            waiter.join().expect("it has the lock");
        });
    });
    assert!(in_redis::is_free(server, &name));
    assert!(takes(&*(kind.rival)(&ours, &name)) <= SLIP.get());
}

/// The time that it takes to get the lock.
fn takes(lock: &dyn Lock) -> Duration {
    let start = Instant::now();
    let guard = lock.acquire().expect("Redis replies");
    let took = start.elapsed();
    guard.unlock().expect("it is held");
    took
}

fn a_killed_waiter_blocks_no_other_client(deployment: &Deployment) {
    kinds::each(|kind| a_killed_waiter_blocks_no_other(deployment, kind, QUEUE));
}
