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
    unlock: Outcome,
    /// Of the watchdog, and of a nested acquire that needs a longer lease.
    renewal: Outcome,
    inspect: Outcome,
    force_unlock: Outcome,
    /// Whether connections with this error are used again.
    connections_are_kept: bool,
}

impl Expected {
    /// Every call has the same result.
    const fn all(outcome: Outcome) -> Self {
        Self {
            acquire: outcome,
            unlock: outcome,
            renewal: outcome,
            inspect: outcome,
            force_unlock: outcome,
            connections_are_kept: true,
        }
    }
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
    expect_outcome(expected.renewal, "a longer nested acquire", 1, || {
        nest(Lease::fixed(long * 2))
    });
    expect_outcome(expected.unlock, "an unlock", 3, || freed.unlock());
    expect_outcome(expected.inspect, "inspect", 1, || {
        client.inspect(outer.name())
    });
    expect_outcome(expected.force_unlock, "force_unlock", 1, || {
        client.force_unlock(forced.name())
    });
    assert_eq!(nested.hold_count(), 1);
    // What the watchdog does meanwhile.
    let before = renewing.stats().renewals;
    match expected.renewal {
        Works => eventually("a renewal", || renewing.stats().renewals > before),
        Refused(why) | Retried(why) => eventually("the event of the failed renewal", || {
            events.try_iter().any(|event| {
                matches!(event, LockEvent::RenewalFailed { lock, cause, .. }
                    if *lock == *renewed.name() && says(&cause, why))
            })
        }),
    }
    renewed.check().expect("a renewal that fails is no loss");
    used.extend(connections(&mut admin));
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
    let losses = u64::from(matches!(expected.force_unlock, Works));
    let lost = (client.stats().lost, renewing.stats().lost);
    assert_eq!(lost, (losses, 0));
}

/// A condition that commands begin and end.
const PLAIN: Condition = Condition {
    what: "",
    user: "default",
    begin: &[],
    end: "",
    expected: Expected::all(Works),
};

/// The error of scripts that write a hash. Others need no memory and no such permission.
const fn only_acquire(outcome: Outcome) -> Expected {
    Expected {
        acquire: outcome,
        ..Expected::all(Works)
    }
}

const CONDITIONS: [Condition; 4] = [
    Condition {
        what: "out of memory",
        begin: &["SETRANGE data 8000000 x", "CONFIG SET maxmemory 4mb"],
        end: "CONFIG SET maxmemory 0",
        expected: only_acquire(Refused("OOM")),
        ..PLAIN
    },
    Condition {
        what: "a server that became a replica",
        // No server listens there.
        begin: &["REPLICAOF 127.0.0.1 1"],
        end: "REPLICAOF NO ONE",
        expected: Expected {
            inspect: Works,
            connections_are_kept: false,
            ..Expected::all(Retried("read only replica"))
        },
        ..PLAIN
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
            connections_are_kept: false,
            ..Expected::all(Refused("WRONGPASS"))
        },
        ..PLAIN
    },
    Condition {
        what: "a user who may not run scripts",
        user: "worker",
        begin: &["ACL SETUSER worker -evalsha"],
        end: "ACL SETUSER worker +evalsha",
        expected: Expected::all(Refused(NO_PERMISSION)),
        ..PLAIN
    },
];

#[test]
fn each_call_has_its_documented_result() {
    CONDITIONS.iter().for_each(check_all_calls);
}

/// The error of one thread does not say which client holds the lock, so every thread sends its own
/// request.
#[test]
fn a_key_of_another_type_is_reported_to_each_of_many_threads() {
    let server = Server::start();
    server.run("SET k text");
    let patient = builder(&server.url()).command_timeout(SOON.get());
    let lock = patient.build().unwrap().reentrant_lock("k");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
                    assert_error!(result, WrongType);
                }
            });
        }
    });
}
