//! Users who may not do all that locks need.

use std::thread;

use super::{KINDS, expect, nothing_is_left, readme_rules};
use crate::locks::with_user;
use crate::support::server::Server;

/// A user with the rules of the page and more, and the URL for it.
fn user_and(server: &Server, user: &str, more: &str) -> String {
    with_user(server, user, &format!("{} {more}", readme_rules()))
}

#[test]
fn the_line_of_the_documentation_is_enough() {
    let server = Server::start();
    let url = with_user(&server, "locks", &readme_rules());
    expect(0, &url, &[])
        .allows_every_kind()
        .says("role", "unknown", &["may not use INFO"])
        .has_only("unknown", &["role", "eviction"]);
    // What is asked beside it, and nothing else.
    let log: Vec<redis::Value> = server.ask(redis::cmd("ACL").arg("LOG"));
    for entry in log.iter().map(|entry| format!("{entry:?}")) {
        let is_known = |may: &str| entry.contains(&format!("{may:?}"));
        assert!(
            ["info", "client|setname"].into_iter().any(is_known),
            "{entry}"
        );
    }
    nothing_is_left(&server);
}

/// Redis 7.0 does not name the command of a script that it refuses. Then the page does.
#[test]
fn every_right_that_is_missing_has_advice() {
    let server = Server::start();
    let rules = readme_rules();
    let rights = rules.split(' ').filter_map(|rule| rule.strip_prefix('+'));
    let rights: Vec<&str> = rights.collect();
    assert!(rights.len() > 15, "{rights:?}");
    thread::scope(|scope| {
        for (number, right) in rights.into_iter().enumerate() {
            let server = &server;
            scope.spawn(move || {
                let url = user_and(server, &format!("worker{number}"), &format!("-{right}"));
                let report = super::report(super::at(&url), &[]);
                let refused = |line: &&serde_json::Value| {
                    matches!(line["verdict"].as_str(), Some("warning" | "failure"))
                };
                let refused: Vec<_> = report.lines.iter().filter(refused).collect();
                assert!(!refused.is_empty(), "{right}: {:#?}", report.lines);
                for line in refused {
                    let advice = line["advice"].as_str().expect("advice");
                    let names_it = advice.contains(&format!("<user> +{right}"));
                    let names_page = advice.contains("docs/permissions.md");
                    assert!(names_it || names_page, "{right}: {line:#}");
                }
            });
        }
    });
}

/// With the permissions for plain locks alone, a program that uses no others works.
#[test]
fn keys_and_channels_of_other_kinds_are_a_warning() {
    let server = Server::start();
    let narrow = "resetkeys ~jobs:* resetchannels &redisson_lock__channel:*";
    let url = user_and(&server, "locks", narrow);
    let report = expect(0, &url, &["jobs"]);
    report.says("reentrant", "ok", &[]);
    for kind in ["fenced", "fair"] {
        report.says(kind, "warning", &["~<key>"]);
    }
    report.says("rights", "warning", &["<user> ~leasehold_line:*"]);
    // The default name is forbidden.
    let report = expect(1, &url, &[]);
    report.says("reentrant", "failure", &["~<key>"]);
    let tried = |line: &&serde_json::Value| KINDS.iter().any(|kind| line["check"] == *kind);
    assert_eq!(report.lines.iter().filter(tried).count(), 1);
    nothing_is_left(&server);
}

#[test]
fn a_database_needs_a_right_of_its_own() {
    let server = Server::start();
    let url = with_user(&server, "locks", &readme_rules()) + "/3";
    expect(69, &url, &[]).says("reachable", "failure", &["+select"]);
    with_user(&server, "locks", "+select");
    expect(0, &url, &[]).says("reentrant", "ok", &[]);
}
