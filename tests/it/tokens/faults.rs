//! Lost replies, and replicas.

use super::{given, owned};
use crate::line::{FAIR, Make, PLAIN, READ};
use crate::support::prelude::*;

/// Long leases, so that nothing ends by itself.
fn patient(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(A_WHILE.get());
    let builder = builder.watchdog_lease(SOON.get() * 6);
    builder.build().expect("the settings are valid")
}

const KINDS: [Make; 3] = [PLAIN, FAIR, READ];

#[test]
fn one_lost_reply_only_delays_the_call() {
    let proxied = ProxiedServer::new();
    let faults = [
        Fault::SwallowRequest,
        Fault::SwallowReply,
        Fault::ResetBeforeReply,
    ];
    for (make, fault) in KINDS
        .iter()
        .flat_map(|make| faults.iter().map(move |fault| (make, fault)))
    {
        let (client, name) = (patient(&proxied), unique("token"));
        let lock = make(&client, &name);
        let guard = owned(&*lock);
        let lost = proxied.fault_once("adopt", fault);
        let token = guard.into_token().unwrap();
        assert!(lost.load(Ordering::SeqCst));
        let lost = proxied.fault_once("adopt", fault);
        let guard = client.adopt(&token).unwrap();
        assert!(lost.load(Ordering::SeqCst));
        guard.confirm().unwrap();
        guard.unlock().unwrap();
        eventually("nothing is left", || proxied.server.size() == 0);
    }
}

#[test]
fn without_a_reply_the_lock_is_released_and_the_token_is_spent() {
    let proxied = ProxiedServer::new();
    let client = patient(&proxied);
    for make in KINDS {
        let lock = make(&client, &unique("token"));
        let guard = owned(&*lock);
        proxied.fault_always("adopt", &Fault::SwallowReply);
        assert!(is_not_released(&guard.into_token()));
        eventually("the release", || proxied.server.size() == 0);
        proxied.proxy.clear_rules();

        let token = given(&*lock);
        proxied.fault_always("adopt", &Fault::SwallowReply);
        let error = client.adopt(&token).unwrap_err();
        assert!(
            error.to_string().contains("its token may be spent"),
            "{error}"
        );
        assert_error!(Err::<(), _>(error), Unavailable);
        eventually("the release", || proxied.server.size() == 0);
        proxied.proxy.clear_rules();
        assert_lost(&client.adopt(&token), LostReason::TokenSpent);
    }
}

/// The giver has extended its lease, which the client that adopts need not know otherwise.
#[test]
fn an_adopted_lock_is_released_until_the_lease_of_its_giver_ends() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(A_WHILE.get()).build().unwrap();
    type Adopt = fn(&LockClient, &str);
    let ways: [(Option<&str>, Adopt); 2] = [
        (None, |client, token| {
            let guard = client.adopt(token).unwrap();
            assert!(is_not_released(&guard.unlock()));
        }),
        (Some("adopt"), |client, token| {
            assert!(is_unavailable(&client.adopt(token)));
        }),
    ];
    for (without_reply, adopt) in ways {
        let lock = client.reentrant_lock(&unique("token"));
        let guard = owned(&lock);
        guard.extend(SOON.get() * 6).unwrap();
        let token = guard.into_token().unwrap();
        proxied.proxy.on_request(move |request| {
            if request.runs("release") {
                Fault::SwallowRequest
            } else if without_reply.is_some_and(|script| request.runs(script)) {
                Fault::SwallowReply
            } else {
                Fault::Pass
            }
        });
        adopt(&client, &token);
        throughout(LEASE.get() * 2, "no release arrives", || {
            !in_redis::is_free(&proxied.server, lock.name())
        });
        proxied.proxy.clear_rules();
        eventually("the release", || {
            in_redis::is_free(&proxied.server, lock.name())
        });
    }
}

/// Redis counts the lease of a hold that is given away from when it executes the request.
#[test]
fn a_limit_counts_the_time_that_a_give_away_takes() {
    let proxied = ProxiedServer::new();
    let client = patient(&proxied);
    let lock = client.reentrant_lock(&unique("token"));
    let limit = SOON.get() * 30;
    let lease = Lease::held_at_most(limit);
    let guard = lock.acquire_owned(lease).unwrap();
    let began = Instant::now();
    let lost = proxied.fault_once("adopt", &Fault::SwallowRequest);
    let token = guard.into_token().unwrap();
    assert!(lost.load(Ordering::SeqCst) && began.elapsed() >= A_WHILE.get());
    let rest = token
        .split('.')
        .nth(3)
        .and_then(|field| field.strip_prefix("for"));
    let rest = Duration::from_millis(rest.unwrap().parse().unwrap());
    let elapsed = began.elapsed();
    let until_adopted = in_redis::time_to_live(&proxied.server, lock.name());
    assert!(elapsed + until_adopted + rest <= limit);
    client.adopt(&token).unwrap().unlock().unwrap();
}

/// Nor a copy of the call that gave it away.
#[test]
fn a_late_copy_takes_nothing_from_the_next_owner() {
    let proxied = ProxiedServer::new();
    let client = patient(&proxied);
    let lock = client.reentrant_lock(&unique("token"));
    let guard = owned(&lock);
    let giving = proxied.hold_back_once("adopt");
    let token = guard.into_token().unwrap();
    let adopting = proxied.hold_back_once("adopt");
    let guard = client.adopt(&token).unwrap();
    for gate in [&giving, &adopting] {
        assert_eq!(gate.held(), 1);
        gate.open();
    }
    throughout(A_WHILE.get(), "it is held", || guard.confirm().is_ok());
    guard.unlock().unwrap();
    throughout(A_WHILE.get(), "it is free", || {
        in_redis::is_free(&proxied.server, lock.name())
    });
}

#[test]
fn replicas_confirm_what_is_adopted() {
    let deployment = Replicated::start(1);
    let client = builder(&deployment.url()).min_replicas(1, A_WHILE.get());
    let client = client.build().unwrap();
    let lock = client.reentrant_lock("lock");
    let guard = client.adopt(&given(&lock)).unwrap();
    let owner = client.inspect("lock").unwrap().owner.unwrap();
    let has = |server: &Server| server.ask::<bool>(redis::cmd("HEXISTS").arg("lock").arg(&owner));
    assert!(has(deployment.replica(0)));
    let token = guard.into_token().unwrap();
    deployment.pause_replica(0);
    assert_error!(client.adopt(&token), TooFewReplicas);
    eventually("the release", || {
        in_redis::is_free(deployment.master(), "lock")
    });
    assert_lost(&client.adopt(&token), LostReason::TokenSpent);
}
