//! Many channels are subscribed at the same time.

use parking_lot::Mutex;

use super::kill_subscribers;
use crate::faults::deployment::Deployment;
use crate::support::prelude::*;
use crate::support::server::program::is_redis_7;

/// What a client requested through a proxy, which holds its first subscription back.
#[derive(Clone, Default)]
struct Requests {
    gate: Gate,
    subscriptions: Arc<Mutex<usize>>,
    /// The requests for each lock.
    tries: Arc<Mutex<HashMap<Vec<u8>, u32>>>,
}

impl Requests {
    fn of(place: &ProxiedServer) -> Self {
        let requests = Self::default();
        let seen = requests.clone();
        place.proxy.on_request(move |request| {
            if request.runs("fair_acquire") {
                let name = request.words[3].clone();
                *seen.tries.lock().entry(name).or_default() += 1;
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
            let tries = self.tries.lock();
            tries.values().filter(|&&tries| tries > 1).count() == count
        });
    }

    fn subscriptions(&self) -> usize {
        *self.subscriptions.lock()
    }
}

/// Locks that `holder` holds.
fn held(holder: &LockClient, kind: &str, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|_| unique(kind)).collect();
    for name in &names {
        let lease = Lease::fixed(SOON.get() * 6);
        let lock = holder.fair_lock(name);
        lock.lock_with(lease).expect("it is free");
    }
    names
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

/// Threads of `waiter` wait for the locks. They get them when `meanwhile` has run. Without a message
/// they would wait for the ends of the leases.
fn wait_for_all(
    holder: &LockClient,
    waiter: &LockClient,
    names: &[String],
    meanwhile: impl FnOnce(),
) {
    thread::scope(|scope| {
        for name in names {
            scope.spawn(move || {
                let lock = waiter.fair_lock(name);
                let acquired = lock.try_lock(SOON.get(), Lease::RENEWED);
                assert!(acquired.expect("a reply"), "{name}");
                lock.unlock().expect("it is held");
            });
        }
        meanwhile();
        for name in names {
            holder.fair_lock(name).unlock().expect("it is held");
        }
    });
}

/// Those of threads that begin to wait at the same time, and all channels of a new connection.
#[test]
fn channels_that_are_wanted_together_are_subscribed_by_one_command() {
    let place = ProxiedServer::new();
    let holder = place.rival();
    let names = held(&holder, "together", 50);
    let requests = Requests::of(&place);
    let waiter = place.builder(SOON.get()).build().unwrap();
    wait_for_all(&holder, &waiter, &names, || {
        requests.await_waiters(names.len());
        assert_eq!(requests.subscriptions(), 1, "the control channel");
        requests.gate.open();
        let listen = || are_listened(&[&place.server], &names);
        eventually("all channels are subscribed", listen);
        assert_eq!(requests.subscriptions(), 2);
        kill_subscribers(&[&place.server]);
        eventually("all are subscribed again", listen);
        assert_eq!(requests.subscriptions(), 4);
    });
}

/// The user may not listen to each second lock.
#[test]
fn forbidden_channels_do_not_affect_those_that_are_subscribed_with_them() {
    let place = ProxiedServer::new();
    let holder = place.rival();
    let [permitted, forbidden] = ["permitted", "forbidden"].map(|kind| held(&holder, kind, 10));
    let all = [&permitted[..], &forbidden[..]].concat();
    place.server.run(
        "ACL SETUSER worker on >secret ~* +@all resetchannels \
         &redisson_lock__channel:{leasehold:* &redisson_lock__channel:{permitted*",
    );
    let requests = Requests::of(&place);
    let waiter = place.builder(SOON.get());
    let waiter = waiter
        .credentials(Some("worker"), "secret")
        .build()
        .unwrap();
    wait_for_all(&holder, &waiter, &all, || {
        requests.await_waiters(all.len());
        requests.gate.open();
        eventually("the permitted channels are subscribed", || {
            are_listened(&[&place.server], &permitted)
        });
        // The control channel, all together, and each channel alone.
        let expected = 2 + all.len();
        eventually("each is requested", || requests.subscriptions() >= expected);
        assert_eq!(requests.subscriptions(), expected);
        assert!(!are_listened(&[&place.server], &forbidden[..1]));
    });
}

/// In a cluster a command subscribes shard channels of one slot.
#[test]
fn many_shard_channels_are_subscribed_again() {
    let deployment = Deployment::cluster();
    let servers = deployment.servers();
    let (holder, waiter) = (deployment.client(), deployment.client());
    let names = held(&holder, "shards", 20);
    wait_for_all(&holder, &waiter, &names, || {
        let listen = || are_listened(&servers, &names);
        eventually("all channels are subscribed", listen);
        kill_subscribers(&servers);
        eventually("all are subscribed again", listen);
    });
}
