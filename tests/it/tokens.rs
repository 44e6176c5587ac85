//! Holds that are given to another client by a token. `contract::owned` has what each kind does.

mod faults;

use std::sync::Barrier;

use crate::support::prelude::*;

fn owned(lock: &dyn Lock) -> OwnedGuard {
    lock.acquire_owned(Lease::RENEWED).expect("it is free")
}

fn given(lock: &dyn Lock) -> String {
    owned(lock).into_token().expect("it is held")
}

#[test]
fn another_client_takes_a_fenced_lock_over_with_its_number() {
    let server = Server::start();
    let lock = client(&server.url()).fenced_lock(&unique("token"));
    let guard = owned(&lock);
    let number = guard.fencing_token().unwrap();
    let guard = client(&server.url())
        .adopt(&guard.into_token().unwrap())
        .unwrap();
    assert_eq!(guard.fencing_token(), Some(number));
    guard.unlock().unwrap();
    assert!(lock.acquire().unwrap().fencing_token() > number);
}

/// Of the client that adopts: one that requested the lock before, one behind it, and one that comes
/// later.
#[test]
fn threads_of_the_adopting_client_wait_for_an_adopted_lock() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let name = unique("token");
    let lock = theirs.reentrant_lock(&name);
    let token = given(&ours.reentrant_lock(&name));
    thread::scope(|scope| {
        let mut waiting = vec![scope.spawn(|| pair(&lock)), scope.spawn(|| pair(&lock))];
        stay_waiting(&waiting);
        let guard = theirs.adopt(&token).unwrap();
        waiting.push(scope.spawn(|| pair(&lock)));
        stay_waiting(&waiting);
        guard.check().unwrap();
        within(SOON.get() / 2, "all of them", || {
            guard.unlock().unwrap();
            waiting.into_iter().for_each(|one| one.join().unwrap());
        });
    });
    let stats = theirs.stats();
    assert!(stats.acquisitions > 1, "none is handed over: {stats:?}");
    assert!(in_redis::is_free(&server, &name));
}

#[test]
fn a_lock_that_is_given_away_ends_with_its_lease_and_counts_it_anew() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let lock = ours.reentrant_lock(&unique("token"));
    let lease = Lease::fixed(LEASE.get());
    let fixed = || lock.acquire_owned(lease).unwrap();
    let guard = fixed();
    eventually("half of it", || guard.remaining() < LEASE.get() / 2);
    let token = guard.into_token().unwrap();
    assert!(in_redis::time_to_live(&server, lock.name()) > LEASE.get() / 2);
    eventually("half of it", || {
        in_redis::time_to_live(&server, lock.name()) < LEASE.get() / 2
    });
    let guard = theirs.adopt(&token).unwrap();
    assert!(guard.remaining() > LEASE.get() / 2);
    eventually("its end", || guard.is_lost());
    let token = fixed().into_token().unwrap();
    eventually("its end", || in_redis::is_free(&server, lock.name()));
    assert_lost(&theirs.adopt(&token), LostReason::TokenSpent);
    drop(guard);
}

#[test]
fn a_limit_of_renewals_goes_on() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock(&unique("token"));
    let guard = lock.acquire_owned(Lease::renewed_at_most(0)).unwrap();
    let guard = client.adopt(&guard.into_token().unwrap()).unwrap();
    let lost = guard.lost();
    assert_eq!(lost.recv_timeout(SOON.get()), Ok(LostReason::RenewalLimit));
}

#[test]
fn a_permit_is_given_away() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let semaphore = ours.leased_semaphore(&unique("token"));
    semaphore.try_set_permits(1).unwrap();
    let guard = semaphore.acquire().unwrap();
    let id = guard.id().to_owned();
    let token = guard.into_token().unwrap();
    assert_eq!(semaphore.available().unwrap(), 0);
    assert_error!(theirs.adopt(&token), InvalidArgument);
    let guard = theirs.adopt_permit(&token).unwrap();
    assert_ne!(guard.id(), id);
    assert_lost(&ours.adopt_permit(&token), LostReason::TokenSpent);
    throughout(LEASE.get() * 2, "renewed", || {
        guard.check().is_ok() && semaphore.available().unwrap() == 0
    });
    guard.release().unwrap();
    assert_eq!(
        (semaphore.available().unwrap(), semaphore.permits().unwrap()),
        (1, 1)
    );
    let fixed = semaphore.acquire_with(Lease::fixed(LEASE.get())).unwrap();
    let token = fixed.into_token().unwrap();
    eventually("its end", || semaphore.available().unwrap() == 1);
    assert_lost(&theirs.adopt_permit(&token), LostReason::TokenSpent);
    assert_eq!(semaphore.permits().unwrap(), 1);
}

#[test]
fn permits_that_were_acquired_together_are_given_away_together() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let semaphore = ours.leased_semaphore(&unique("token"));
    semaphore.try_set_permits(4).unwrap();
    // Longer than the test, so that nothing ends by itself.
    let lease = Lease::fixed(SOON.get() * 6);
    let guard = semaphore.acquire_many(3, lease).unwrap();
    let ids: Vec<String> = guard.ids().map(Into::into).collect();
    let guard = theirs.adopt_permit(&guard.into_token().unwrap()).unwrap();
    assert!(guard.ids().count() == 3 && guard.ids().all(|id| !ids.contains(&id.into())));
    guard.confirm().unwrap();
    assert_eq!(semaphore.available().unwrap(), 1);
    let token = guard.into_token().unwrap();
    server.ask::<()>(redis::cmd("ZPOPMIN").arg(format!("{{{}}}:timeout", semaphore.name())));
    assert_lost(&theirs.adopt_permit(&token), LostReason::TokenSpent);
    eventually("those that are left", || {
        semaphore.available().unwrap() == 3
    });
}

#[test]
fn a_token_of_another_kind_or_that_was_cut_changes_nothing() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock(&unique("token"));
    let token = given(&lock);
    let newer = token.replacen("leasehold1", "leasehold2", 1);
    for wrong in [&token[..token.len() - 1], &newer, ""] {
        assert_error!(client.adopt(wrong), InvalidArgument);
        assert_error!(client.adopt_permit(wrong), InvalidArgument);
    }
    let error = client.adopt_permit(&token).unwrap_err().to_string();
    assert!(
        error.contains(lock.name()) && !error.contains(&token[20..40]),
        "{error}"
    );
    client.adopt(&token).unwrap().unlock().unwrap();
}

/// Each reader has its own lease beside the lock.
#[test]
fn a_reader_is_given_away_beside_others() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let name = unique("token");
    let [read, write] = [&ours, &theirs].map(|client| client.read_write_lock(&name));
    let other = read.read().acquire().unwrap();
    let guard = theirs.adopt(&given(&read.read())).unwrap();
    assert_eq!(server.ask::<usize>(redis::cmd("HLEN").arg(&name)), 3);
    other.unlock().unwrap();
    throughout(LEASE.get() * 2, "it keeps writers out", || {
        write.write().try_acquire_now().unwrap().is_none()
    });
    // Its own client, too, and it ends there.
    guard.unlock().unwrap();
    assert_eq!(server.size(), 0);
    let fixed = read
        .read()
        .acquire_owned(Lease::fixed(LEASE.get()))
        .unwrap();
    let token = fixed.into_token().unwrap();
    let other = read.read().acquire().unwrap();
    throughout(LEASE.get() * 2, "the other one reads", || {
        other.check().is_ok()
    });
    assert_lost(&theirs.adopt(&token), LostReason::TokenSpent);
}

#[test]
fn what_ends_an_owned_guard_ends_an_adopted_one() {
    let server = Server::start();
    let ours = client(&server.url());
    let lock = ours.reentrant_lock(&unique("token"));
    let [forced, kept, dropped, shut] = [(); 4].map(|()| client(&server.url()));
    let adopted = |client: &LockClient| client.adopt(&given(&lock)).unwrap();

    let guard = adopted(&forced);
    let lost = guard.lost();
    assert!(forced.force_unlock(lock.name()).unwrap());
    within(SLIP.get(), "the loss", || {
        assert_eq!(lost.recv_timeout(SOON.get()), Ok(LostReason::Deleted));
    });
    assert_lost(&guard.unlock(), LostReason::Deleted);

    adopted(&kept).unlock_after(A_WHILE.get()).unwrap();
    assert!(
        kept.reentrant_lock(lock.name())
            .try_acquire_now()
            .unwrap()
            .is_none()
    );
    eventually("its end", || in_redis::is_free(&server, lock.name()));

    drop(adopted(&dropped));
    eventually("the release", || in_redis::is_free(&server, lock.name()));

    let guard = adopted(&shut);
    shut.shutdown(SOON.get()).unwrap();
    assert!(in_redis::is_free(&server, lock.name()));
    assert_lost(&guard.check(), LostReason::ShutDown);
    let token = given(&lock);
    assert_error!(shut.adopt(&token), ShutDown);
    ours.force_unlock(lock.name()).unwrap();
    assert_lost(&ours.adopt(&token), LostReason::TokenSpent);
}

/// A shutdown that comes between finds a hold or a token. About every tenth call comes then.
#[test]
fn a_shutdown_leaves_no_lock_in_redis_without_a_token() {
    let server = Server::start();
    for _ in 0..30 {
        let client = client(&server.url());
        let hold = |_| owned(&client.reentrant_lock(&unique("token")));
        let guards: Vec<_> = (0..16).map(hold).collect();
        let start = Barrier::new(guards.len() + 1);
        let given = thread::scope(|scope| {
            let give = |guard: OwnedGuard| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    guard.into_token().is_ok()
                })
            };
            let calls: Vec<_> = guards.into_iter().map(give).collect();
            start.wait();
            client.shutdown(SOON.get()).unwrap();
            let given = calls.into_iter().map(|call| call.join().unwrap());
            given.filter(|is_given| *is_given).count()
        });
        assert_eq!(server.size(), given);
        server.ask::<()>(&redis::cmd("FLUSHALL"));
    }
}

#[test]
fn a_lost_lock_is_not_given_away() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock(&unique("token"));
    let guard = owned(&lock);
    server.ask::<()>(redis::cmd("DEL").arg(lock.name()));
    assert_lost(&guard.into_token(), LostReason::Deleted);
    pair(&lock);
}
