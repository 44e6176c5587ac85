//! Connections that break during a request: it is retried on another connection, in time.

mod slow_replies;

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockClient, ReentrantLock};
use parking_lot::Mutex;

use super::proxied_server::{ProxiedServer, is_not_released, is_unavailable};
use crate::support::proxy::{Fault, Proxy};
use crate::support::timing::{LEASE, SLIP, SOON, millis, within};
use crate::support::unique;

fn timeout() -> Duration {
    millis(100)
}

fn client(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(timeout()).watchdog_lease(SOON.get());
    builder.build().expect("the settings are valid")
}

/// The requests that were still sent on broken connections.
#[derive(Clone, Default)]
struct Broken(Arc<Mutex<HashMap<u64, Vec<String>>>>);

impl Broken {
    /// The next `most` requests that run `script` get this fault.
    fn by(proxy: &Proxy, script: &'static str, fault: Fault, most: usize) -> Self {
        let broken = Self::default();
        let (seen, mut left) = (broken.clone(), most);
        proxy.on_request(move |request| {
            let mut seen = seen.0.lock();
            if let Some(later) = seen.get_mut(&request.connection) {
                later.push(format!("{} {:?}", request.command(), request.script()));
            }
            if left > 0 && request.runs(script) {
                left -= 1;
                seen.insert(request.connection, Vec::new());
                return fault.clone();
            }
            Fault::Pass
        });
        broken
    }

    /// The number of broken connections, none of which was used again.
    #[track_caller]
    fn count(&self) -> usize {
        let broken = self.0.lock();
        for (connection, later) in broken.iter() {
            assert!(later.is_empty(), "connection {connection}: {later:?}");
        }
        broken.len()
    }

    /// The number of broken connections, on which at most one compensation was sent, as the last
    /// request.
    #[track_caller]
    fn count_taken_back(&self) -> usize {
        let broken = self.0.lock();
        for (connection, later) in broken.iter() {
            let is_allowed = match later.as_slice() {
                [] => true,
                [only] => only.starts_with("EVAL "),
                _ => false,
            };
            assert!(is_allowed, "connection {connection}: {later:?}");
        }
        broken.len()
    }
}

/// A call with one request.
struct Step {
    script: &'static str,
    reply: &'static str,
    call: fn(&ReentrantLock) -> leasehold::Result<()>,
    /// Afterwards, in Redis.
    count: u32,
}

/// The steps of a hold. The second one extends the lease for an inner level.
const STEPS: [Step; 3] = [
    Step {
        script: "acquire",
        reply: "$-1\r\n",
        call: ReentrantLock::lock,
        count: 1,
    },
    Step {
        script: "renew",
        reply: "*1\r\n:1\r\n",
        call: |lock| {
            lock.lock_with(Lease::fixed(SOON.get() * 6))?;
            // This sends nothing.
            lock.unlock()
        },
        count: 1,
    },
    Step {
        script: "release",
        reply: ":1\r\n",
        call: ReentrantLock::unlock,
        count: 0,
    },
];

/// The broken connection is noticed without a timeout, so the timeout can be long.
fn client_with_long_timeout(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(SOON.get()).watchdog_lease(SOON.get());
    builder.build().expect("the settings are valid")
}

/// Every step succeeds although its first attempt fails. The fault depends on a position in the
/// reply.
fn every_step_is_retried(fault: fn(usize) -> Fault) {
    let proxied = ProxiedServer::new();
    let client = client_with_long_timeout(&proxied);
    let mut view = proxied.view();
    let longest = STEPS.iter().map(|step| step.reply.len()).max();
    for at in 0..longest.expect("there are steps") {
        let lock = client.reentrant_lock(&unique("broken"));
        for step in STEPS {
            // The last byte does not arrive.
            let fault = fault(at.min(step.reply.len() - 1));
            let what = format!("{fault:?} of {}", step.script);
            let broken = Broken::by(&proxied.proxy, step.script, fault, 1);
            let result = within(LEASE.get(), &what, || (step.call)(&lock));
            result.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(view.count(lock.name()), step.count, "{what}");
            assert_eq!(lock.hold_count(), step.count, "{what}");
            // The next call also uses another connection.
            client.inspect(lock.name()).unwrap();
            assert_eq!(broken.count(), 1, "{what}");
        }
    }
}

#[test]
fn a_request_whose_reply_is_reset_at_any_byte_is_retried() {
    every_step_is_retried(Fault::ResetInReply);
}

#[test]
fn a_request_whose_reply_is_cut_at_any_byte_is_retried() {
    every_step_is_retried(Fault::CutInReply);
}

/// The connection looks intact, but it is closed or about to be closed.
#[test]
fn a_connection_that_ends_after_a_reply_does_not_affect_the_next_call() {
    let proxied = ProxiedServer::new();
    let client = client_with_long_timeout(&proxied);
    let mut view = proxied.view();
    for fault in [Fault::ResetInReply, Fault::CutInReply] {
        let lock = client.reentrant_lock(&unique("broken"));
        for step in STEPS {
            let fault = fault(step.reply.len());
            proxied.proxy.on_request(move |_| fault.clone());
            within(LEASE.get(), "a step", || (step.call)(&lock)).unwrap();
            assert_eq!(view.count(lock.name()), step.count);
        }
    }
}

#[test]
fn half_a_command_is_never_executed_and_is_retried() {
    every_step_is_retried(|_| Fault::HalfRequest);
}

/// The longest reply: the holders of the lock.
#[test]
fn a_long_reply_that_breaks_at_any_byte_is_discarded() {
    let proxied = ProxiedServer::new();
    let client = client_with_long_timeout(&proxied);
    let lock = client.reentrant_lock(&unique("broken"));
    // The number of its digits does not change during the test.
    lock.lock_with(Lease::fixed(LEASE.get() * 5_000)).unwrap();
    let status = client.inspect(lock.name()).unwrap();
    let owner = status.owner.as_ref().expect("this test holds it");
    let left = proxied.view().time_to_live(lock.name()).as_millis();
    let reply = format!(
        "*3\r\n:{left}\r\n${}\r\n{owner}\r\n$1\r\n1\r\n",
        owner.len()
    );
    let length = reply.len();
    for at in 0..length {
        for fault in [Fault::ResetInReply(at), Fault::CutInReply(at)] {
            let what = format!("{fault:?}");
            let broken = Broken::by(&proxied.proxy, "inspect", fault, 1);
            let found = within(LEASE.get(), &what, || client.inspect(lock.name()));
            let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((&found.owner, found.hold_count), (&status.owner, 1));
            assert_eq!(broken.count(), 1);
        }
    }
    lock.unlock().unwrap();
}

/// A forced unlock is not retried: a second copy could release the next hold.
#[test]
fn a_force_unlock_whose_reply_breaks_reports_an_unknown_result() {
    let proxied = ProxiedServer::new();
    let client = client_with_long_timeout(&proxied);
    let rival = proxied.rival();
    for at in 0..":1\r\n".len() {
        let lock = rival.reentrant_lock(&unique("broken"));
        lock.lock().unwrap();
        let broken = Broken::by(&proxied.proxy, "force_unlock", Fault::ResetInReply(at), 1);
        let result = within(LEASE.get(), "breaking a lock", || {
            client.force_unlock(lock.name())
        });
        assert!(is_unavailable(&result), "{result:?}");
        assert_eq!(proxied.view().count(lock.name()), 0);
        client.inspect(lock.name()).unwrap();
        assert_eq!(broken.count(), 1);
        assert!(matches!(lock.unlock(), Err(Error::Lost { .. })));
    }
}

/// One client for each byte, all at the same time.
#[test]
#[ignore = "soak"]
fn a_renewal_whose_reply_breaks_at_any_byte_is_retried_in_time() {
    let proxied = ProxiedServer::new();
    let mut holds = Vec::new();
    let mut places = HashMap::new();
    for at in 0..="*1\r\n:1\r\n".len() {
        for fault in [Fault::ResetInReply(at), Fault::CutInReply(at)] {
            // Only renewals call the script.
            let client = proxied
                .builder(timeout())
                .confirm_every(Duration::ZERO)
                .build()
                .unwrap();
            let lock = client.reentrant_lock(&unique("broken"));
            places.insert(lock.name().as_bytes().to_vec(), fault);
            holds.push((at, client, lock));
        }
    }
    let broken = Broken::default();
    let seen = broken.clone();
    proxied.proxy.on_request(move |request| {
        let mut seen = seen.0.lock();
        if let Some(later) = seen.get_mut(&request.connection) {
            later.push(request.command());
        }
        let lock = request.words.get(3).filter(|_| request.runs("renew"));
        match lock.and_then(|lock| places.remove(lock)) {
            Some(fault) => {
                seen.insert(request.connection, Vec::new());
                fault
            }
            None => Fault::Pass,
        }
    });
    let guards: Vec<_> = holds
        .iter()
        .map(|(_, _, lock)| lock.acquire().unwrap())
        .collect();
    let mut view = proxied.view();
    let start = Instant::now();
    while start.elapsed() < LEASE.get() * 2 {
        for guard in &guards {
            guard.check().unwrap();
            assert_eq!(view.count(guard.name()), 1);
        }
        thread::sleep(millis(10));
    }
    assert_eq!(broken.count(), guards.len());
    for ((at, client, _), guard) in holds.iter().zip(guards) {
        guard.unlock().unwrap();
        let stats = client.stats();
        // The complete reply is an answer.
        assert!(
            stats.renewals_unknown > 0 || *at == "*1\r\n:1\r\n".len(),
            "after {at} bytes: {stats:?}"
        );
        assert_eq!(stats.lost, 0);
    }
}

/// None of its requests arrives completely.
#[test]
#[ignore = "soak"]
fn calls_whose_requests_all_break_fail_in_time_and_leave_nothing() {
    let proxied = ProxiedServer::alone();
    let client = client(&proxied);
    let mut view = proxied.view();
    let lock = client.reentrant_lock(&unique("broken"));
    let slip = SLIP.get();
    let broken = Broken::by(&proxied.proxy, "acquire", Fault::HalfRequest, usize::MAX);
    let result = within(timeout() + slip, "try_lock", || {
        lock.try_lock(Duration::ZERO, Lease::RENEWED)
    });
    assert!(is_unavailable(&result), "{result:?}");
    let result = within(timeout() * 10 + slip, "lock", || lock.lock());
    assert!(is_unavailable(&result), "{result:?}");
    // On a busy machine the end of a connection may be noticed later than the timeout.
    assert!(broken.count_taken_back() > 2);
    assert_eq!((lock.hold_count(), view.count(lock.name())), (0, 0));

    proxied.proxy.clear_rules();
    lock.lock().unwrap();
    let broken = Broken::by(&proxied.proxy, "renew", Fault::HalfRequest, usize::MAX);
    let result = within(timeout() + slip, "try_lock, nested", || {
        lock.try_lock(Duration::ZERO, Lease::fixed(SOON.get() * 6))
    });
    assert!(is_unavailable(&result), "{result:?}");
    assert!(broken.count() > 0);
    assert_eq!((lock.hold_count(), view.count(lock.name())), (1, 1));

    let broken = Broken::by(&proxied.proxy, "release", Fault::HalfRequest, usize::MAX);
    let result = within(timeout() * 3 + slip, "unlock", || lock.unlock());
    assert!(is_not_released(&result), "{result:?}");
    assert!(broken.count() > 0);
    assert_eq!(lock.hold_count(), 0);
    assert_eq!(view.count(lock.name()), 1);
    proxied.proxy.clear_rules();
    // The release goes on in the background.
    view.await_count(0, lock.name(), LEASE.get(), "a release that failed");
}
