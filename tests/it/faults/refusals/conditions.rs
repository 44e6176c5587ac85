//! The conditions under which Redis replies with an error.

use super::{Condition, Expected, NO_PERMISSION, Refused, Retried, Works, check_all_calls};
use crate::support::prelude::*;
use crate::support::run;
use crate::support::server::Port;

fn nothing_else(_: &Server, _: &mut Connection) {}

/// A condition that commands begin and end.
const PLAIN: Condition = Condition {
    what: "",
    user: "default",
    begin: &[],
    begin_also: nothing_else,
    end: "",
    expected: Expected::all(Works),
};

/// The error of scripts that write a hash. Others need no memory and no such permission.
const fn only_acquire(outcome: super::Outcome) -> Expected {
    Expected {
        acquire: outcome,
        ..Expected::all(Works)
    }
}

static QUICK: [Condition; 4] = [
    Condition {
        what: "out of memory",
        begin: &["SETRANGE data 8000000 x", "CONFIG SET maxmemory 4mb"],
        end: "CONFIG SET maxmemory 0",
        expected: only_acquire(Refused("OOM")),
        ..PLAIN
    },
    Condition {
        what: "a server that became a replica",
        begin_also: follow_no_server,
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

static SLOW: [Condition; 10] = [
    Condition {
        what: "a replica that does not serve stale data",
        begin: &["CONFIG SET replica-serve-stale-data no"],
        begin_also: follow_no_server,
        end: "REPLICAOF NO ONE",
        expected: Expected::all(Retried("MASTER is down")),
        ..PLAIN
    },
    Condition {
        what: "a server that is loading",
        begin_also: load,
        end: "CONFIG SET key-load-delay 0",
        expected: Expected::all(Retried("loading")),
        ..PLAIN
    },
    Condition {
        what: "a server that is busy with a script",
        begin: &["CONFIG SET lua-time-limit 20"],
        begin_also: run_a_script_without_end,
        end: "SCRIPT KILL",
        expected: Expected::all(Retried("BUSY")),
        ..PLAIN
    },
    Condition {
        what: "a password that is required from now on",
        begin: &[
            "CONFIG SET requirepass secret",
            "CLIENT KILL TYPE normal SKIPME yes",
        ],
        end: "CONFIG SET requirepass ",
        expected: Expected {
            connections_are_kept: false,
            ..Expected::all(Refused("NOAUTH"))
        },
        ..PLAIN
    },
    Condition {
        what: "a user who may not send scripts by source",
        user: "worker",
        begin: &["ACL SETUSER worker -eval", "SCRIPT FLUSH"],
        end: "ACL SETUSER worker +eval",
        expected: Expected::all(Refused(NO_PERMISSION)),
        ..PLAIN
    },
    Condition {
        what: "a user whose scripts may not write a hash",
        user: "worker",
        begin: &["ACL SETUSER worker -hset"],
        end: "ACL SETUSER worker +hset",
        expected: only_acquire(Refused(NO_PERMISSION)),
        ..PLAIN
    },
    Condition {
        what: "a user whose scripts may not extend a lease",
        user: "worker",
        begin: &["ACL SETUSER worker -pexpire"],
        end: "ACL SETUSER worker +pexpire",
        expected: Expected {
            renewal: Refused(NO_PERMISSION),
            ..only_acquire(Refused(NO_PERMISSION))
        },
        ..PLAIN
    },
    Condition {
        what: "a server that could not save",
        begin_also: fail_to_save,
        end: "CONFIG SET stop-writes-on-bgsave-error no",
        expected: Expected {
            inspect: Works,
            ..Expected::all(Refused("MISCONF"))
        },
        ..PLAIN
    },
    Condition {
        what: "a server without its replicas",
        begin: &["CONFIG SET min-replicas-to-write 1"],
        end: "CONFIG SET min-replicas-to-write 0",
        expected: Expected {
            inspect: Works,
            ..Expected::all(Retried("NOREPLICAS"))
        },
        ..PLAIN
    },
    Condition {
        what: "a server that accepts no more connections",
        begin: &[
            "CONFIG SET maxclients 1",
            "CLIENT KILL TYPE normal SKIPME yes",
        ],
        end: "CONFIG SET maxclients 100",
        // The end of the connection may hide the server's error.
        expected: Expected::all(Retried("")),
        ..PLAIN
    },
];

fn follow_no_server(_: &Server, admin: &mut Connection) {
    let closed = Port::reserve();
    run(admin, &format!("REPLICAOF 127.0.0.1 {}", closed.number()));
}

/// Loading takes longer than all calls.
fn load(server: &Server, admin: &mut Connection) {
    let mut fill = redis::pipe();
    for key in 0..500 {
        let noise = std::iter::repeat_with(fastrand::alphanumeric);
        let noise: String = noise.take(2000).collect();
        fill.set(format!("data:{key}"), noise).ignore();
    }
    fill.exec(admin).expect("the server replies");
    server.run("SAVE");
    server.kill();
    // In microseconds for each key.
    let delay = millis(20).as_micros().to_string();
    let interval = "--loading-process-events-interval-bytes";
    server.start_again_with(&["--key-load-delay", &delay, interval, "1024"]);
    *admin = server.connection();
}

fn run_a_script_without_end(server: &Server, admin: &mut Connection) {
    let mut other = server.connection();
    thread::spawn(move || {
        let mut eval = redis::cmd("EVAL");
        let busy = eval.arg("while true do end").arg(0).exec(&mut other);
        busy.expect_err("it is killed");
    });
    eventually("it is busy", || {
        let pong = redis::cmd("PING").exec(admin);
        pong.is_err_and(|error| error.code() == Some("BUSY"))
    });
}

fn fail_to_save(server: &Server, _: &mut Connection) {
    let taken = server.socket().with_file_name("dump.rdb");
    std::fs::create_dir(taken).expect("our own directory");
    let mut save = redis::cmd("CONFIG");
    server.ask::<()>(save.arg("SET").arg("save").arg("3600 1"));
    server.run("BGSAVE");
    eventually("it to fail", || {
        let info: String = server.ask(redis::cmd("INFO").arg("persistence"));
        info.contains("rdb_last_bgsave_status:err")
    });
}

/// Checks the calls under all conditions at once: each has a server, and most of them wait.
fn check_all(conditions: &'static [Condition]) {
    thread::scope(|scope| {
        for condition in conditions {
            let thread = thread::Builder::new().name(condition.what.to_owned());
            let checked = thread.spawn_scoped(scope, || check_all_calls(condition));
            checked.expect("a thread can be started");
        }
    });
}

#[test]
fn each_call_has_its_documented_result_under_frequent_conditions() {
    check_all(&QUICK);
}

#[test]
#[ignore = "soak"]
fn each_call_has_its_documented_result_under_rare_conditions() {
    check_all(&SLOW);
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
