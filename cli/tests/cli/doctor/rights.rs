//! Users who may not do all that locks need.

use std::thread;

use super::{expect, nothing_is_left, readme_rules};
use crate::locks::{object, plant, with_user};
use crate::support::server::Server;

/// A user with the rules of the page and more, and the URL for it.
fn user_and(server: &Server, user: &str, more: &str) -> String {
    with_user(server, user, &format!("{} {more}", readme_rules()))
}

#[test]
fn the_line_of_the_readme_is_enough() {
    let server = Server::start();
    let url = with_user(&server, "locks", &readme_rules());
    let report = expect(0, &url, &[]);
    let words = ["locks do not", "ACL SETUSER <user> +scan +getrange +lrange"];
    report
        .says("rights", "ok", &[])
        .says("lock", "ok", &["acquired"])
        .says("version", "unknown", &["may not use INFO"])
        .says("looking", "warning", &words)
        .has_only("note", &["holders"])
        .has_only("warning", &["looking"])
        .has_only("failure", &[]);
    // What is asked beside it, and nothing else.
    let log: Vec<redis::Value> = server.ask(redis::cmd("ACL").arg("LOG"));
    let beside = "info config|get scan getrange lrange client|setname client|list";
    for entry in log.iter().map(|entry| format!("{entry:?}")) {
        let is_known = |may: &str| entry.contains(&format!("{may:?}"));
        assert!(beside.split(' ').any(is_known), "{entry}");
    }
    nothing_is_left(&server);
}

#[test]
fn who_may_also_look_can() {
    let server = Server::start();
    let looking = "+scan +getrange +lrange";
    let url = user_and(&server, "locks", looking);
    let words = ["process of a holder", "+client|setname +client|list"];
    expect(0, &url, &[])
        .says("rights", "ok", &[])
        .has_only("warning", &[])
        .says("holders", "note", &words);
    let of_all = format!("{looking} +client|setname +client|list");
    let all = expect(0, &user_and(&server, "all", &of_all), &[]);
    assert!(all.lines.iter().all(|line| line["check"] != "holders"));
    plant(&server, "order:pay");
    assert_eq!(object(&url, "list")["kind"], "reentrant");
    assert_eq!(object(&url, "show order:pay")["listeners"], 0);

    with_user(&server, "locks", "-pubsub|numsub");
    let words = ["no listeners in show", "<user> +pubsub|numsub"];
    expect(0, &url, &[]).says("kinds", "warning", &words);
    object(&url, "show order:pay");
    object(&url, "list");
}

/// Permissions that plain and fenced locks do not need, and the first kind that needs each.
const OF_KINDS: [(&str, &str); 17] = [
    ("decrby", "semaphores with leases"),
    ("hscan", "read-write locks"),
    ("incrby", "semaphores"),
    ("lindex", "fair locks"),
    ("llen", "fair locks"),
    ("lpop", "fair locks"),
    ("lrem", "early end of a given-up place"),
    ("pubsub|numsub", "early end of a dead client's place"),
    ("rpush", "fair locks"),
    ("zadd", "fair locks"),
    ("zcard", "fair locks"),
    ("zcount", "semaphores"),
    ("zrange", "conditions"),
    ("zrangebyscore", "conditions"),
    ("zrank", "lines of waiting clients"),
    ("zrem", "fair locks"),
    ("zscore", "fair locks"),
];

/// With the permissions for plain locks alone, a program that uses no others works.
#[test]
fn keys_and_channels_of_other_kinds_are_a_warning() {
    let server = Server::start();
    let narrow = "resetkeys ~jobs:* resetchannels &redisson_lock__channel:*";
    let url = user_and(&server, "locks", narrow);
    let words = [
        "the channel redisson_rwlock:{jobs:nightly}",
        "the key redisson_lock_queue:{jobs:nightly}",
        "no read-write locks",
        "no fair locks",
        "no latches",
        "&redisson_sc:*",
        "~redisson_lock_timeout:*",
        "~*:timeout",
    ];
    expect(0, &url, &["jobs:nightly"])
        .says("kinds", "warning", &words)
        .says("rights", "ok", &[])
        .says("lock", "ok", &[])
        .says("fencing", "warning", &["~redisson_lock_token:*"]);
    // The default name is forbidden.
    let words = [
        "the key leasehold-doctor",
        "leasehold doctor KEY",
        "~leasehold-doctor",
    ];
    expect(1, &url, &[]).says("rights", "failure", &words);
    nothing_is_left(&server);
}

#[test]
fn every_right_that_is_missing_is_named() {
    let server = Server::start();
    let rules = readme_rules();
    let rights = rules.split(' ').filter_map(|rule| rule.strip_prefix('+'));
    let rights: Vec<&str> = rights.collect();
    assert!(rights.len() > 15, "{rights:?}");
    assert!(OF_KINDS.iter().all(|(right, _)| rights.contains(right)));
    thread::scope(|scope| {
        for (number, right) in rights.into_iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let user = format!("worker{number}");
                let url = user_and(server, &user, &format!("-{right}"));
                let kind = OF_KINDS.iter().find(|(of_kind, _)| *of_kind == right);
                let rule = &*format!("<user> +{right}\"");
                if let Some((_, kind)) = kind {
                    let lacks = format!("may not use {right}: no {kind}");
                    expect(0, &url, &[&user])
                        .says("kinds", "warning", &[&lacks, rule])
                        .says("rights", "ok", &[])
                        .says("lock", "ok", &[]);
                } else {
                    let lacks = format!("may not use {right}\"");
                    expect(1, &url, &[&user])
                        .says("rights", "failure", &[&lacks, rule])
                        .has_only("failure", &["rights"]);
                }
            });
        }
    });
    nothing_is_left(&server);
}

#[test]
fn a_database_needs_a_right_of_its_own() {
    let server = Server::start();
    let url = with_user(&server, "locks", &readme_rules()) + "/3";
    expect(69, &url, &[]).says("reachable", "failure", &["+select"]);
    with_user(&server, "locks", "+select");
    expect(0, &url, &[]).says("lock", "ok", &[]);
}
