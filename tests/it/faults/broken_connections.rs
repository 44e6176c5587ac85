//! Connections that break during a request: it is retried on another connection, in time.

use parking_lot::Mutex;

use crate::support::prelude::*;
use crate::support::proxy::Proxy;

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
}

/// A call with one request.
struct Step {
    script: &'static str,
    reply: &'static str,
    call: fn(&LockClient, &ReentrantLock) -> leasehold::Result<()>,
    /// Afterwards, in Redis.
    count: u32,
}

/// The steps of a hold. The second one extends the lease for an inner level.
const STEPS: [Step; 4] = [
    Step {
        script: "acquire",
        reply: "$-1\r\n",
        call: |_, lock| lock.lock(),
        count: 1,
    },
    Step {
        script: "renew",
        reply: "*1\r\n:1\r\n",
        call: |_, lock| {
            lock.lock_with(Lease::fixed(SOON.get() * 6))?;
            // This sends nothing.
            lock.unlock()
        },
        count: 1,
    },
    Step {
        script: "inspect",
        // The digits of the lease are not known.
        reply: "*3\r\n:59000\r\n$38\r\n01234567-0123-0123-0123-0123456789ab:1\r\n$1\r\n",
        call: |client, lock| {
            let found = client.inspect(lock.name())?;
            assert!(found.owner.is_some() && found.hold_count == 1, "{found:?}");
            Ok(())
        },
        count: 1,
    },
    Step {
        script: "release",
        reply: ":1\r\n",
        call: |_, lock| lock.unlock(),
        count: 0,
    },
];

/// The broken connection is noticed without a timeout, so the timeout can be long.
fn client_with_long_timeout(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(SOON.get()).watchdog_lease(SOON.get());
    builder.build().expect("the settings are valid")
}

/// Every step succeeds although its first attempt fails: its reply is reset or cut at any byte, or
/// half of the command arrives, which is never executed.
#[test]
fn a_request_that_breaks_at_any_byte_is_retried_on_another_connection() {
    let proxied = ProxiedServer::new();
    let client = client_with_long_timeout(&proxied);
    let longest = STEPS.iter().map(|step| step.reply.len()).max();
    for at in 0..longest.expect("there are steps") {
        for fault in [Fault::ResetInReply, Fault::CutInReply, |_| {
            Fault::HalfRequest
        }] {
            let lock = client.reentrant_lock(&unique("broken"));
            for step in STEPS {
                // The last byte does not arrive.
                let at = at.min(step.reply.len() - 1);
                let what = format!("{:?} of {}", fault(at), step.script);
                let broken = Broken::by(&proxied.proxy, step.script, fault(at), 1);
                let result = within(LEASE.get(), &what, || (step.call)(&client, &lock));
                result.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(
                    in_redis::count(&proxied.server, lock.name()),
                    step.count,
                    "{what}"
                );
                assert_eq!(lock.hold_count(), step.count, "{what}");
                // The next call also uses another connection.
                client.inspect(lock.name()).unwrap();
                assert_eq!(broken.count(), 1, "{what}");
            }
        }
    }
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
        assert_eq!(in_redis::count(&proxied.server, lock.name()), 0);
        client.inspect(lock.name()).unwrap();
        assert_eq!(broken.count(), 1);
        assert_error!(lock.unlock(), Lost);
    }
}
