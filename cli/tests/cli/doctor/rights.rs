//! Users who may not do all that locks need.

use std::thread;

use super::{nothing_is_left, readme_rules, report, with_long_timeout, with_user};
use crate::locks::{objects, plant};
use crate::support::server::Server;

/// With these rules after those of the README.
fn and<'a>(rules: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    rules
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect()
}

#[test]
fn the_line_of_the_readme_is_enough() {
    let server = Server::start();
    let url = with_user(&server, "locks", &and(&readme_rules(), &[]));
    let report = report(with_long_timeout(&url), &[]).expect(0);
    report
        .says("rights", "ok", &[])
        .says("lock", "ok", &["acquired"]);
    report.says("version", "unknown", &["may not use INFO"]);
    let words = ["locks do not", "ACL SETUSER <user> +scan +getrange +lrange"];
    report.says("looking", "warning", &words);
    for (verdict, checks) in [
        ("note", &["holders"][..]),
        ("warning", &["looking"]),
        ("failure", &[]),
    ] {
        report.has_only(verdict, checks);
    }
    // What is asked beside it, and nothing else.
    let log: Vec<redis::Value> = server.ask(redis::cmd("ACL").arg("LOG"));
    for entry in log.iter().map(|entry| format!("{entry:?}")) {
        assert!(
            [
                "info",
                "config|get",
                "scan",
                "getrange",
                "lrange",
                "client|setname",
                "client|list"
            ]
            .iter()
            .any(|may| entry.contains(&format!("{may:?}"))),
            "{entry}"
        );
    }
    nothing_is_left(&server);
}

#[test]
fn who_may_also_look_can() {
    let server = Server::start();
    let rules = readme_rules();
    let looking = ["+scan", "+getrange", "+lrange"];
    let url = with_user(&server, "locks", &and(&rules, &looking));
    let well = report(with_long_timeout(&url), &[]).expect(0);
    well.says("rights", "ok", &[]).has_only("warning", &[]);
    let words = ["process of a holder", "+client|setname +client|list"];
    well.says("holders", "note", &words);
    let holders = ["+client|setname", "+client|list"];
    let of_all = with_user(
        &server,
        "all",
        &and(&rules, &[&looking[..], &holders].concat()),
    );
    let all = report(with_long_timeout(&of_all), &[]).expect(0);
    assert!(all.lines.iter().all(|line| line["check"] != "holders"));
    plant(&server, b"order:pay");
    let ask = |args: &[&str]| objects(&with_long_timeout(&url).args(args).output().expect(0));
    assert_eq!(ask(&["list", "--json"])[0]["kind"], "reentrant");
    assert_eq!(ask(&["show", "order:pay", "--json"])[0]["listeners"], 0);

    with_user(&server, "locks", &["-pubsub|numsub"]);
    let words = ["no listeners in show", "<user> +pubsub|numsub"];
    let uncounted = report(with_long_timeout(&url), &[]).expect(0);
    uncounted.says("kinds", "warning", &words);
    ask(&["show", "order:pay", "--json"]);
    ask(&["list", "--json"]);
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
    let rules = readme_rules();
    let narrow = [
        "resetkeys",
        "~jobs:*",
        "resetchannels",
        "&redisson_lock__channel:*",
    ];
    let url = with_user(&server, "locks", &and(&rules, &narrow));
    let report = report(with_long_timeout(&url), &["jobs:nightly"]).expect(0);
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
    report
        .says("kinds", "warning", &words)
        .says("lock", "ok", &[]);
    nothing_is_left(&server);
}

#[test]
fn every_right_that_is_missing_is_named() {
    let server = Server::start();
    let rules = readme_rules();
    let rights: Vec<&str> = rules
        .iter()
        .filter_map(|rule| rule.strip_prefix('+'))
        .collect();
    assert!(rights.len() > 15, "{rights:?}");
    assert!(OF_KINDS.iter().all(|(right, _)| rights.contains(right)));
    thread::scope(|scope| {
        for (number, right) in rights.into_iter().enumerate() {
            let (server, rules) = (&server, &rules);
            scope.spawn(move || {
                let without = format!("-{right}");
                let user = format!("worker{number}");
                let url = with_user(server, &user, &and(rules, &[&without]));
                let report = report(with_long_timeout(&url), &[&user]);
                if let Some((_, kind)) = OF_KINDS.iter().find(|(of_kind, _)| *of_kind == right) {
                    let (lacks, rule) = (
                        format!("may not use {right}: no {kind}"),
                        format!("<user> +{right}\""),
                    );
                    let report = report.expect(0);
                    report.says("kinds", "warning", &[&lacks, &rule]);
                    report.says("rights", "ok", &[]).says("lock", "ok", &[]);
                    return;
                }
                let report = report.expect(1);
                let (lacks, rule) = (
                    format!("may not use {right}\""),
                    format!("<user> +{right}\""),
                );
                report.says("rights", "failure", &[&lacks, &rule]);
                report.has_only("failure", &["rights"]);
            });
        }
    });
    nothing_is_left(&server);
}

#[test]
fn all_that_is_missing_is_named_at_once_and_what_is_to_be_added_is_enough() {
    let server = Server::options().keeps_data().start();
    let rules = readme_rules();
    let missing = ["-hset", "-del", "-subscribe", "resetchannels", "&other:*"];
    let url = with_user(&server, "locks", &and(&rules, &missing));
    let before = report(with_long_timeout(&url), &[]).expect(1);
    let advice = before.of("rights")[0]["advice"]
        .as_str()
        .expect("advice")
        .to_owned();
    let fragment: Vec<&str> = advice
        .strip_prefix("ACL SETUSER <user> ")
        .expect("a fragment")
        .split(' ')
        .collect();
    assert_eq!(
        fragment,
        ["+subscribe", "+del", "+hset", "&redisson_lock__channel:*"]
    );
    let url = with_user(&server, "locks", &fragment);
    report(with_long_timeout(&url), &[])
        .expect(0)
        .says("rights", "ok", &[]);
    nothing_is_left(&server);
}

/// The channel of the client is reported if only it is forbidden.
#[test]
fn the_channel_that_may_not_be_used_is_named() {
    let server = Server::start();
    let channels = "&redisson_lock__channel:{jobs:*";
    let rules = readme_rules();
    let rules = and(&rules, &["resetchannels", channels]);
    let url = with_user(&server, "locks", &rules);
    let own = report(with_long_timeout(&url), &["jobs:nightly"]).expect(1);
    let found = own.of("rights")[0]["found"].to_string();
    assert!(found.contains("_channel:{leasehold:"), "{found}");
    assert!(!found.contains("jobs:nightly"), "{found}");
    let both = report(with_long_timeout(&url), &["order:pay"]).expect(1);
    let words = ["_channel:{leasehold:", "_channel:{order:pay}"];
    both.says("rights", "failure", &words);
    nothing_is_left(&server);
}

#[test]
fn a_forbidden_name_is_reported() {
    let server = Server::start();
    let rules = readme_rules();
    let url = with_user(&server, "locks", &and(&rules, &["resetkeys", "~jobs:*"]));
    let with_the_default = report(with_long_timeout(&url), &[]).expect(1);
    with_the_default.says(
        "rights",
        "failure",
        &[
            "the key leasehold-doctor",
            "leasehold doctor KEY",
            "~leasehold-doctor",
        ],
    );
    let with_one_of_theirs = report(with_long_timeout(&url), &["jobs:nightly"]).expect(0);
    with_one_of_theirs
        .says("rights", "ok", &[])
        .says("lock", "ok", &[])
        .says("fencing", "warning", &["~redisson_lock_token:*"]);
    nothing_is_left(&server);
}

#[test]
fn a_database_needs_a_right_of_its_own() {
    let server = Server::start();
    let url = with_user(&server, "locks", &and(&readme_rules(), &[]));
    let refused = report(with_long_timeout(&format!("{url}/3")), &[]).expect(69);
    refused.says("reachable", "failure", &["+select"]);
    let url = with_user(&server, "locks", &["+select"]);
    report(with_long_timeout(&format!("{url}/3")), &[])
        .expect(0)
        .says("lock", "ok", &[]);
}
