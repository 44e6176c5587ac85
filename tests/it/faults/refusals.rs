//! The server replies with an error: what each call returns then, and what happens to held locks.
//!
//! There is one condition for each way to go on. `transport::retry_action` knows the way for each
//! error.

mod batches;

use crate::support::prelude::*;
use crate::support::run;

/// The time that the documentation allows a call beyond its timeouts.
const GRACE: Duration = Duration::from_millis(250);

/// The lease of the renewed lock: its next renewal is due when all calls have been made.
const LONG: Millis = Millis(6_000);

/// The result of a call while the condition lasts.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Works,
    /// It fails at once, with an error that contains these words.
    Refused(&'static str),
    /// It is retried until its budget is used up, and the error contains these words.
    Retried(&'static str),
}
use Outcome::{Refused, Retried, Works};

/// The error of a user who lacks a permission.
const NO_PERMISSION: &str = "no permissions";

/// Whether an error contains these words. Redis 7.0 and older use other words if a script calls a
/// command that the user may not run.
fn says(text: &str, words: &str) -> bool {
    let in_script = "the user executing the script can't";
    let text = text.to_lowercase();
    text.contains(&words.to_lowercase()) || words == NO_PERMISSION && text.contains(in_script)
}

/// The expected results under a condition.
struct Expected {
    acquire: Outcome,
    inspect: Outcome,
    /// Of all calls that change what is held, and of the watchdog.
    others: Outcome,
    /// Whether connections with this error are used again.
    connections_are_kept: bool,
}

/// A condition, which commands begin and end on a connection that it does not affect.
struct Condition {
    what: &'static str,
    /// The user of the clients: `default`, or `worker`, whose permissions may change.
    user: &'static str,
    begin: &'static [&'static str],
    end: &'static str,
    expected: Expected,
}

fn timeout() -> Duration {
    millis(300)
}

fn client(url: &str) -> LockClient {
    builder(url)
        .watchdog_lease(LONG.get())
        .command_timeout(timeout())
        .build()
        .unwrap()
}

/// Makes one call under the condition.
#[track_caller]
fn expect_outcome<T: std::fmt::Debug>(
    outcome: Outcome,
    what: &str,
    timeouts: u32,
    call: impl FnOnce() -> leasehold::Result<T>,
) {
    let start = Instant::now();
    let result = call();
    let took = start.elapsed();
    let bound = timeout() * timeouts + GRACE;
    assert!(
        took <= bound + SLIP.get(),
        "{what} took {took:?}: {result:?}"
    );
    match (outcome, &result) {
        (Works, Ok(_)) => {}
        (Refused(why), Err(Error::Redis { cause, .. })) => {
            assert!(says(&cause.to_string(), why), "{what}: {cause}");
        }
        (
            Retried(why),
            Err(Error::Unavailable { cause, .. } | Error::NotReleased { cause, .. }),
        ) => {
            let cause = cause.to_string();
            // The end of the budget may interrupt the last attempt.
            let is_expected = says(&cause, why) || cause == "no reply in time";
            assert!(is_expected, "{what}: {cause}");
            assert!(took >= timeout() * timeouts, "{what} took only {took:?}");
        }
        _ => panic!("{what} comes to {result:?}, not to {outcome:?}"),
    }
}

/// A lock whose lease outlasts the condition.
fn hold(client: &LockClient, what: &str, lease: Duration) -> LockGuard {
    let lock = client.reentrant_lock(&unique(what));
    let guard = lock.acquire_with(Lease::fixed(lease));
    guard.expect("it is free")
}

/// The ids of all connections but this one.
fn connections(admin: &mut Connection) -> HashSet<u64> {
    let mut list = redis::cmd("CLIENT");
    let list: String = list.arg("LIST").query(admin).expect("the server replies");
    let others = list.lines().filter(|line| !line.contains("cmd=client"));
    let ids = others.filter_map(|line| line.strip_prefix("id=")?.split(' ').next());
    ids.map(|id| id.parse().expect("a number")).collect()
}

/// Makes every kind of call under the condition and after it. No lock is lost.
fn check_all_calls(condition: &Condition) {
    println!("{}", condition.what);
    let server = &Server::start();
    server.run("ACL SETUSER worker on >secret ~* &* +@all");
    let url = match condition.user {
        "default" => server.url(),
        user => format!("redis://{user}:secret@{}", server.address()),
    };
    let expected = &condition.expected;
    // The second client has one lock to renew, so its watchdog sends no other request.
    let [client, renewing] = [(); 2].map(|()| client(&url));
    let events = renewing.events();
    let long = SOON.get() * 6;
    let [outer, forced, freed] =
        ["nested", "forced", "freed"].map(|what| hold(&client, what, long));
    let nested = client.reentrant_lock(outer.name());
    let renewed = renewing.reentrant_lock(&unique("renewed")).acquire();
    let renewed = renewed.expect("it is free");
    let mut admin = server.connection();
    let mut used = connections(&mut admin);
    for command in condition.begin {
        run(&mut admin, command);
    }
    let free = client.reentrant_lock(&unique("free"));
    expect_outcome(expected.acquire, "acquire", 1, || {
        let taken = free.try_acquire_now()?;
        taken.map(LockGuard::unlock).transpose()
    });
    used.extend(connections(&mut admin));
    let nest = |lease: Lease| {
        let taken = nested.try_acquire(Duration::ZERO, lease)?;
        taken.map(LockGuard::unlock).transpose()
    };
    expect_outcome(Works, "a nested acquire", 0, || nest(Lease::RENEWED));
    expect_outcome(expected.others, "a longer nested acquire", 1, || {
        nest(Lease::fixed(long * 2))
    });
    expect_outcome(expected.others, "an unlock", 3, || freed.unlock());
    expect_outcome(expected.inspect, "inspect", 1, || {
        client.inspect(outer.name())
    });
    expect_outcome(expected.others, "force_unlock", 1, || {
        client.force_unlock(forced.name())
    });
    assert_eq!(nested.hold_count(), 1);
    // What the watchdog does meanwhile.
    let before = renewing.stats().renewals;
    match expected.others {
        Works => eventually("a renewal", || renewing.stats().renewals > before),
        Refused(why) | Retried(why) => eventually("the event of the failed renewal", || {
            events.try_iter().any(|event| {
                matches!(event, LockEvent::RenewalFailed { lock, cause, .. }
                    if *lock == *renewed.name() && says(&cause, why))
            })
        }),
    }
    renewed.check().expect("a renewal that fails is no loss");
    run(&mut admin, condition.end);
    let failed = renewing.stats().renewals;
    eventually("a renewal", || renewing.stats().renewals > failed);
    for guard in [renewed, outer] {
        guard.unlock().expect("it was held all the time");
    }
    pair(&free);
    if !expected.connections_are_kept {
        let now = connections(&mut server.connection());
        let again: Vec<_> = used.intersection(&now).collect();
        assert!(again.is_empty(), "used again: {again:?}");
    }
    let losses = u64::from(matches!(expected.others, Works));
    let lost = (client.stats().lost, renewing.stats().lost);
    assert_eq!(lost, (losses, 0));
}

const CONDITIONS: [Condition; 4] = [
    Condition {
        what: "out of memory",
        user: "default",
        begin: &["SETRANGE data 8000000 x", "CONFIG SET maxmemory 4mb"],
        end: "CONFIG SET maxmemory 0",
        // Scripts that do not write a hash need no memory.
        expected: Expected {
            acquire: Refused("OOM"),
            inspect: Works,
            others: Works,
            connections_are_kept: true,
        },
    },
    Condition {
        what: "a server that became a replica",
        user: "default",
        // No server listens there.
        begin: &["REPLICAOF 127.0.0.1 1"],
        end: "REPLICAOF NO ONE",
        expected: Expected {
            acquire: Retried("read only replica"),
            inspect: Works,
            others: Retried("read only replica"),
            connections_are_kept: false,
        },
    },
    Condition {
        what: "a password that is no longer valid",
        user: "worker",
        begin: &[
            "ACL SETUSER worker resetpass >other",
            "CLIENT KILL USER worker",
        ],
        end: "ACL SETUSER worker >secret",
        expected: Expected {
            acquire: Refused("WRONGPASS"),
            inspect: Refused("WRONGPASS"),
            others: Refused("WRONGPASS"),
            connections_are_kept: false,
        },
    },
    Condition {
        what: "a user who may not run scripts",
        user: "worker",
        begin: &["ACL SETUSER worker -evalsha"],
        end: "ACL SETUSER worker +evalsha",
        expected: Expected {
            acquire: Refused(NO_PERMISSION),
            inspect: Refused(NO_PERMISSION),
            others: Refused(NO_PERMISSION),
            connections_are_kept: true,
        },
    },
];

#[test]
fn each_call_has_its_documented_result() {
    CONDITIONS.iter().for_each(check_all_calls);
}
