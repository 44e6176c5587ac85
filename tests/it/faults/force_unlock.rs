//! Another client force-unlocks a lock: its holder learns that, and so do threads of the holder's
//! process that wait for the lock.

use super::deployment::Deployment;
use super::kinds::KINDS;
use crate::support::outcome::assert_lost;
use crate::support::prelude::*;

everywhere! {
    a_holder_whose_client_listens_gets_a_message;
}

/// Nothing else notifies the holder: its lease is long, and not confirmed. The operator does not
/// know the namespace of the holder.
fn a_holder_whose_client_listens_gets_a_message(deployment: &Deployment) {
    let operator = deployment.client();
    let builder = deployment.builder().namespace("shop:eu");
    let builder = builder.watchdog_lease(long());
    let holder = builder.confirm_every(Duration::ZERO).build().unwrap();
    for kind in &KINDS {
        // In a cluster, all on one server.
        let name = |what: &str| format!("{{{}}}:{what}", kind.name);
        let key = |what: &str| format!("shop:eu:{}", name(what));
        let busy = operator.reentrant_lock(&key("busy"));
        busy.lock_with(Lease::fixed(long())).unwrap();
        let wait = holder.reentrant_lock(&name("busy"));
        assert!(!wait.try_lock(A_WHILE.get(), Lease::RENEWED).unwrap());
        busy.unlock().unwrap();

        let lock = (kind.lock)(&holder, &name("held"));
        let guard = lock.acquire().unwrap();
        let owner = operator.inspect(&key("held")).unwrap().owner.unwrap();
        let (client, _) = owner.split_once(':').unwrap();
        let channels = redis::cmd("PUBSUB")
            .arg("CHANNELS")
            .arg(format!("*leasehold:{client}*"))
            .clone();
        let server = deployment.server_of(&key("held"));
        eventually("the subscription", || {
            !server.ask::<Vec<String>>(&channels).is_empty()
        });
        assert!(operator.force_unlock(&key("held")).unwrap());
        let loss = guard.lost().recv_timeout(SOON.get());
        assert_eq!(loss, Ok(LostReason::Deleted), "{}", kind.name);
    }
}

/// Only a confirmation or a message tells the holder earlier than after this time.
pub fn long() -> Duration {
    SOON.get() * 6
}

/// A second thread waits for the lock that the calling thread acquires with `lease`. It gets the
/// lock after `free` has force-unlocked it.
pub fn a_waiting_thread_gets_the_lock_within_a_second(
    lock: &dyn Lock,
    lease: Lease,
    free: impl FnOnce(),
) {
    let (says, tasks) = bounded(1);
    lock.lock_with(lease).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            says.send(Task::current()).unwrap();
            assert!(lock.try_lock(SOON.get(), lease).unwrap());
            lock.unlock().unwrap();
        });
        let task = tasks.recv().unwrap();
        eventually("the thread to wait", || task.is_asleep());
        free();
        // One second, and the delay of a busy machine.
        within(millis(1_000) + millis(1_500), "the hand-over", || {
            waiting.join().unwrap();
        });
    });
    assert_lost(&lock.unlock(), LostReason::Deleted);
}

#[test]
fn a_thread_that_waits_for_a_freed_lock_gets_it_within_a_second() {
    let server = Server::start();
    let (holder, operator) = (client(&server.url()), client(&server.url()));
    let renewed = Lease::RENEWED.lasting(long());
    let names = [unique("one"), unique("two")];
    let (plain, both) = (holder.reentrant_lock(&names[0]), holder.multi_lock(&names));
    let cases: [(&dyn Lock, &[String], Lease); 3] = [
        (&plain, &names[..1], renewed),
        (&plain, &names[..1], Lease::fixed(long())),
        (&both, &names, renewed),
    ];
    for (lock, names, lease) in cases {
        a_waiting_thread_gets_the_lock_within_a_second(lock, lease, || {
            for name in names {
                assert!(operator.force_unlock(name).unwrap());
            }
        });
    }
}
