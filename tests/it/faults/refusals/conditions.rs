//! One test for each error.

use std::thread;

use std::time::Duration;

use leasehold::{Error, Lease};
use redis::Connection;

use super::{Condition, Expected, NO_PERMISSION, Refused, Retried, Works, check_all_calls};
use crate::support::server::{Port, Server};
use crate::support::timing::{SOON, eventually, millis};
use crate::support::{builder, client};

/// Runs one command, whose words are separated by spaces.
fn run(redis: &mut Connection, command: &str) {
    let mut words = command.split(' ');
    let mut request = redis::cmd(words.next().expect("a command"));
    for word in words {
        request.arg(word);
    }
    let answer = request.exec(redis);
    answer.unwrap_or_else(|error| panic!("{command}: {error}"));
}

/// A user whose permissions the test can change.
fn url_of_worker(server: &Server) -> String {
    let everything = "ACL SETUSER worker on >secret ~* &* +@all";
    run(&mut server.connection(), everything);
    format!("redis://worker:secret@{}", server.address())
}

#[test]
fn out_of_memory() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &server.url(),
            begin: &mut |admin| {
                run(admin, "CONFIG SET maxmemory-policy noeviction");
                run(admin, "SETRANGE data 8000000 x");
                run(admin, "CONFIG SET maxmemory 4mb");
            },
            end: &|admin| run(admin, "CONFIG SET maxmemory 0"),
        },
        // Only scripts that write a hash need memory.
        &Expected {
            unlock: Works,
            renewal: Works,
            inspect: Works,
            force_unlock: Works,
            ..Expected::all(Refused("OOM"))
        },
    );
}

#[test]
fn a_server_that_became_a_replica() {
    let server = Server::start();
    let closed = Port::reserve();
    check_all_calls(
        &server,
        &mut Condition {
            url: &server.url(),
            begin: &mut |admin| {
                run(admin, &format!("REPLICAOF 127.0.0.1 {}", closed.number()));
            },
            end: &|admin| run(admin, "REPLICAOF NO ONE"),
        },
        &Expected {
            inspect: Works,
            connections_are_kept: false,
            ..Expected::all(Retried("read only replica"))
        },
    );
}

#[test]
#[ignore = "soak"]
fn a_replica_that_does_not_serve_stale_data() {
    let server = Server::start();
    let closed = Port::reserve();
    check_all_calls(
        &server,
        &mut Condition {
            url: &server.url(),
            begin: &mut |admin| {
                run(admin, "CONFIG SET replica-serve-stale-data no");
                run(admin, &format!("REPLICAOF 127.0.0.1 {}", closed.number()));
            },
            end: &|admin| run(admin, "REPLICAOF NO ONE"),
        },
        &Expected::all(Retried("MASTER is down")),
    );
}

#[test]
#[ignore = "soak"]
fn a_server_that_is_loading() {
    let server = Server::start();
    let mut fill = redis::pipe();
    for key in 0..500 {
        let noise: String = std::iter::repeat_with(fastrand::alphanumeric)
            .take(2000)
            .collect();
        fill.set(format!("data:{key}"), noise).ignore();
    }
    fill.exec(&mut server.connection())
        .expect("the server replies");
    check_all_calls(
        &server,
        &mut Condition {
            url: &server.url(),
            begin: &mut |admin| {
                run(admin, "SAVE");
                server.kill();
                // In microseconds for each key: loading takes longer than all calls.
                let delay = millis(20).as_micros().to_string();
                server.start_again_with(&[
                    "--key-load-delay",
                    &delay,
                    "--loading-process-events-interval-bytes",
                    "1024",
                ]);
                *admin = server.connection();
            },
            end: &|admin| run(admin, "CONFIG SET key-load-delay 0"),
        },
        &Expected::all(Retried("loading")),
    );
}

#[test]
#[ignore = "soak"]
fn a_server_that_is_busy_with_a_script() {
    let server = Server::start();
    thread::scope(|scope| {
        check_all_calls(
            &server,
            &mut Condition {
                url: &server.url(),
                begin: &mut |admin| {
                    run(admin, "CONFIG SET lua-time-limit 20");
                    let mut other = server.connection();
                    scope.spawn(move || {
                        let busy_script = redis::cmd("EVAL")
                            .arg("while true do end")
                            .arg(0)
                            .exec(&mut other);
                        busy_script.expect_err("it is killed");
                    });
                    eventually("it is busy", || {
                        let pong = redis::cmd("PING").exec(admin);
                        pong.is_err_and(|error| error.code() == Some("BUSY"))
                    });
                },
                end: &|admin| run(admin, "SCRIPT KILL"),
            },
            &Expected::all(Retried("BUSY")),
        );
    });
}

#[test]
#[ignore = "soak"]
fn a_password_that_is_required_from_now_on() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &server.url(),
            begin: &mut |admin| {
                run(admin, "CONFIG SET requirepass secret");
                run(admin, "CLIENT KILL TYPE normal SKIPME yes");
            },
            end: &|admin| run(admin, "CONFIG SET requirepass "),
        },
        &Expected {
            connections_are_kept: false,
            ..Expected::all(Refused("NOAUTH"))
        },
    );
}

#[test]
fn a_password_that_is_no_longer_valid() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &url_of_worker(&server),
            begin: &mut |admin| {
                run(admin, "ACL SETUSER worker resetpass >other");
                run(admin, "CLIENT KILL USER worker");
            },
            end: &|admin| run(admin, "ACL SETUSER worker >secret"),
        },
        &Expected {
            connections_are_kept: false,
            ..Expected::all(Refused("WRONGPASS"))
        },
    );
}

/// Redis requires the password only when a connection is opened.
#[test]
fn authenticated_connections_survive_a_new_password() {
    let server = Server::start();
    let client = client(&server.url());
    let guard = client.reentrant_lock("held").acquire().expect("it is free");
    let renewals = || client.stats().renewals;
    eventually("a renewal", || renewals() > 0);
    let mut admin = server.connection();
    run(&mut admin, "CONFIG SET requirepass secret");
    let before = renewals();
    let lock = client.reentrant_lock("free");
    lock.acquire()
        .expect("it is free")
        .unlock()
        .expect("it is held");
    eventually("a renewal", || renewals() > before);
    guard.unlock().expect("it is held");
    assert_eq!(client.stats().renewals_failed, 0);
    run(&mut admin, "CONFIG SET requirepass ");
}

#[test]
fn a_user_who_may_not_run_scripts() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &url_of_worker(&server),
            begin: &mut |admin| run(admin, "ACL SETUSER worker -evalsha"),
            end: &|admin| run(admin, "ACL SETUSER worker +evalsha"),
        },
        &Expected {
            ..Expected::all(Refused(NO_PERMISSION))
        },
    );
}

#[test]
#[ignore = "soak"]
fn a_user_who_may_not_send_scripts_by_source() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &url_of_worker(&server),
            begin: &mut |admin| {
                run(admin, "ACL SETUSER worker -eval");
                run(admin, "SCRIPT FLUSH");
            },
            end: &|admin| run(admin, "ACL SETUSER worker +eval"),
        },
        &Expected {
            ..Expected::all(Refused(NO_PERMISSION))
        },
    );
}

#[test]
#[ignore = "soak"]
fn a_user_whose_scripts_may_not_write_a_hash() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &url_of_worker(&server),
            begin: &mut |admin| run(admin, "ACL SETUSER worker -hset"),
            end: &|admin| run(admin, "ACL SETUSER worker +hset"),
        },
        &Expected {
            unlock: Works,
            renewal: Works,
            inspect: Works,
            force_unlock: Works,
            ..Expected::all(Refused(NO_PERMISSION))
        },
    );
}

#[test]
#[ignore = "soak"]
fn a_user_whose_scripts_may_not_extend_a_lease() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &url_of_worker(&server),
            begin: &mut |admin| run(admin, "ACL SETUSER worker -pexpire"),
            end: &|admin| run(admin, "ACL SETUSER worker +pexpire"),
        },
        // The nested level asks for no longer lease than there is.
        &Expected {
            acquire: Refused(NO_PERMISSION),
            renewal: Refused(NO_PERMISSION),
            ..Expected::all(Works)
        },
    );
}

#[test]
#[ignore = "soak"]
fn a_server_that_could_not_save() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &server.url(),
            begin: &mut |admin| {
                let taken = server.socket().with_file_name("dump.rdb");
                std::fs::create_dir(taken).expect("our own directory");
                let mut save = redis::cmd("CONFIG");
                let save = save.arg("SET").arg("save").arg("3600 1").exec(admin);
                save.expect("the server replies");
                run(admin, "BGSAVE");
                eventually("it to fail", || {
                    let info: String = server.ask(redis::cmd("INFO").arg("persistence"));
                    info.contains("rdb_last_bgsave_status:err")
                });
            },
            end: &|admin| run(admin, "CONFIG SET stop-writes-on-bgsave-error no"),
        },
        &Expected {
            inspect: Works,
            ..Expected::all(Refused("MISCONF"))
        },
    );
}

#[test]
#[ignore = "soak"]
fn a_server_without_its_replicas() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &server.url(),
            begin: &mut |admin| run(admin, "CONFIG SET min-replicas-to-write 1"),
            end: &|admin| run(admin, "CONFIG SET min-replicas-to-write 0"),
        },
        &Expected {
            inspect: Works,
            ..Expected::all(Retried("NOREPLICAS"))
        },
    );
}

#[test]
#[ignore = "soak"]
fn a_server_that_accepts_no_more_connections() {
    let server = Server::start();
    check_all_calls(
        &server,
        &mut Condition {
            url: &server.url(),
            begin: &mut |admin| {
                run(admin, "CONFIG SET maxclients 1");
                run(admin, "CLIENT KILL TYPE normal SKIPME yes");
            },
            end: &|admin| run(admin, "CONFIG SET maxclients 100"),
        },
        // The end of the connection may hide the server's error.
        &Expected::all(Retried("")),
    );
}

/// The error of one thread does not say who holds the lock, so every thread sends its own request.
#[test]
fn a_key_of_another_type_is_reported_to_each_of_many_threads() {
    let server = Server::start();
    server.ask::<()>(redis::cmd("SET").arg("k").arg("no lock"));
    let patient = builder(&server.url()).command_timeout(SOON.get());
    let lock = patient.build().unwrap().reentrant_lock("k");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
                    assert!(matches!(result, Err(Error::WrongType { .. })), "{result:?}");
                }
            });
        }
    });
}
