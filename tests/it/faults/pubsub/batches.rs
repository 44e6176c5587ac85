//! Many channels are subscribed at the same time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;

use leasehold::{Lease, LockClient};
use parking_lot::Mutex;

use super::kill_subscribers;
use crate::faults::deployment::Deployment;
use crate::faults::proxied_server::ProxiedServer;
use crate::support::proxy::{Fault, Gate};
use crate::support::server::Server;
use crate::support::server::program::is_redis_7;
use crate::support::timing::{SOON, eventually};
use crate::support::unique;

/// What a client requested through a proxy, which holds its first subscription back.
#[derive(Clone, Default)]
struct Requests {
    gate: Gate,
    subscriptions: Arc<Mutex<u32>>,
    /// The requests for each lock.
    tries: Arc<Mutex<HashMap<Vec<u8>, u32>>>,
}

impl Requests {
    fn of(place: &ProxiedServer) -> Self {
        let requests = Self::default();
        let seen = requests.clone();
        place.proxy.on_request(move |request| {
            if request.runs("fair_acquire") {
                *seen
                    .tries
                    .lock()
                    .entry(request.words[3].clone())
                    .or_default() += 1;
            }
            if request.command() == "SUBSCRIBE" {
                let mut count = seen.subscriptions.lock();
                *count += 1;
                if *count == 1 {
                    return Fault::HoldBack(seen.gate.clone());
                }
            }
            Fault::Pass
        });
        requests
    }

    /// Waits until a thread waits for each of these locks. It listens before its second request.
    fn await_waiters(&self, count: usize) {
        eventually("all threads poll", || {
            self.tries
                .lock()
                .values()
                .filter(|&&tries| tries > 1)
                .count()
                == count
        });
    }

    fn subscriptions(&self) -> u32 {
        *self.subscriptions.lock()
    }
}

fn names(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|_| unique(kind)).collect()
}

fn hold(holder: &LockClient, names: &[String]) {
    for name in names {
        let lease = Lease::fixed(SOON.get() * 6);
        let lock = holder.fair_lock(name);
        lock.lock_with(lease).expect("it is free");
    }
}

/// Whether each of these locks has a subscriber on one of these servers.
fn are_listened(servers: &[&Server], names: &[String]) -> bool {
    let mut channels: HashSet<String> = HashSet::new();
    for server in servers {
        let list = |what| server.ask::<Vec<String>>(redis::cmd("PUBSUB").arg(what));
        channels.extend(list("CHANNELS"));
        if is_redis_7() {
            channels.extend(list("SHARDCHANNELS"));
        }
    }
    let is_listened = |name: &String| {
        let channel = format!("redisson_lock__channel:{{{name}}}:");
        channels.iter().any(|place| place.starts_with(&channel))
    };
    names.iter().all(is_listened)
}

fn acquire(client: &LockClient, name: &str) {
    let lock = client.fair_lock(name);
    let acquired = lock.try_lock(SOON.get(), Lease::RENEWED);
    assert!(acquired.expect("a reply"), "{name}");
    lock.unlock().expect("it is held");
}

/// Those of threads that begin to wait at the same time, and all channels of a new connection.
#[test]
fn channels_that_are_wanted_together_are_each_requested_once() {
    let place = ProxiedServer::new();
    let names = names("together", 50);
    let holder = place.rival();
    hold(&holder, &names);
    let requests = Requests::of(&place);
    let waiter = place.builder(SOON.get()).build();
    let waiter = waiter.expect("the settings are valid");
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| acquire(&waiter, name));
        }
        requests.await_waiters(names.len());
        assert_eq!(requests.subscriptions(), 1, "the control channel");
        requests.gate.open();
        let listen = || are_listened(&[&place.server], &names);
        eventually("all channels are subscribed", listen);
        let all = 1 + u32::try_from(names.len()).expect("few");
        assert_eq!(requests.subscriptions(), all);

        kill_subscribers(&[&place.server]);
        eventually("all are subscribed again", listen);
        assert_eq!(requests.subscriptions(), 2 * all);
        for name in &names {
            holder.fair_lock(name).unlock().expect("it is held");
        }
    });
}

/// The user may not listen to each second lock.
#[test]
fn forbidden_channels_do_not_affect_those_that_are_subscribed_with_them() {
    let place = ProxiedServer::new();
    let [permitted, forbidden] = ["permitted", "forbidden"].map(|kind| names(kind, 10));
    let all = [&permitted[..], &forbidden[..]].concat();
    let holder = place.rival();
    hold(&holder, &all);
    let mut acl = redis::cmd("ACL");
    acl.arg(&[
        "SETUSER",
        "worker",
        "on",
        ">secret",
        "~*",
        "+@all",
        "resetchannels",
    ]);
    acl.arg(&[
        "&redisson_lock__channel:{leasehold:*",
        "&redisson_lock__channel:{permitted*",
    ]);
    place.server.ask::<()>(&acl);
    let requests = Requests::of(&place);
    let waiter = place
        .builder(SOON.get())
        .credentials(Some("worker"), "secret");
    let waiter = waiter.build().expect("the settings are valid");
    thread::scope(|scope| {
        for name in &all {
            scope.spawn(|| acquire(&waiter, name));
        }
        requests.await_waiters(all.len());
        requests.gate.open();
        eventually("the permitted channels are subscribed", || {
            are_listened(&[&place.server], &permitted)
        });
        // The control channel, and each other one.
        let expected = 1 + u32::try_from(all.len()).expect("few");
        eventually("each is requested", || requests.subscriptions() >= expected);
        assert_eq!(requests.subscriptions(), expected);
        assert!(!are_listened(&[&place.server], &forbidden[..1]));
        for name in &all {
            holder.fair_lock(name).unlock().expect("it is held");
        }
    });
}

/// In a cluster a command subscribes shard channels of one slot.
#[test]
fn many_shard_channels_are_subscribed_again() {
    let deployment = Deployment::cluster();
    let servers = deployment.servers();
    let names = names("shards", 20);
    let (holder, waiter) = (deployment.client(), deployment.client());
    hold(&holder, &names);
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| acquire(&waiter, name));
        }
        let listen = || are_listened(&servers, &names);
        eventually("all channels are subscribed", listen);
        kill_subscribers(&servers);
        eventually("all are subscribed again", listen);
        // Without a message they would wait for the ends of the leases.
        for name in &names {
            holder.fair_lock(name).unlock().expect("it is held");
        }
    });
}
