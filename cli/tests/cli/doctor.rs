//! `leasehold doctor`: what it says of servers that are well, and of those that are not.

mod deployments;
mod rights;
mod servers;

use serde_json::Value;

use crate::program::{Output, Program, leasehold};
use crate::support::server::Server;
use crate::support::timing::{eventually, millis};

#[path = "../../../tests/it/support/faked_clock.rs"]
#[allow(dead_code, reason = "a part is for processes of tests")]
mod faked_clock;

/// The program, which gives a busy machine the time that it needs.
fn with_long_timeout(url: &str) -> Program {
    let timeout = format!("{}ms", millis(4_000).as_millis());
    leasehold(url).env("LEASEHOLD_TIMEOUT", timeout)
}

/// What the program said, one object a check.
struct Report {
    lines: Vec<Value>,
    output: Output,
}

/// Of the doctor, whose arguments begin after `--json`.
#[track_caller]
fn report(program: Program, arguments: &[&str]) -> Report {
    let output = program.args(["doctor", "--json"]).args(arguments).output();
    let parse = |line: &String| serde_json::from_str(line).expect("an object");
    Report {
        lines: output.lines().iter().map(parse).collect(),
        output,
    }
}

impl Report {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.output.code(), Some(code), "{:#?}", self.lines);
        self
    }

    /// The lines of a check: one for each server.
    #[track_caller]
    fn of(&self, check: &str) -> Vec<&Value> {
        let of: Vec<_> = self
            .lines
            .iter()
            .filter(|line| line["check"] == check)
            .collect();
        assert!(!of.is_empty(), "no {check} in {:#?}", self.lines);
        of
    }

    /// Every server's line of a check has this verdict, and these words in what was found or what
    /// is to be done.
    #[track_caller]
    fn says(&self, check: &str, verdict: &str, words: &[&str]) -> &Self {
        for line in self.of(check) {
            assert_eq!(line["verdict"], verdict, "{line:#}");
            let text = format!("{} {}", line["found"], line["advice"]);
            for word in words {
                assert!(text.contains(word), "no {word:?} in {line:#}");
            }
        }
        self
    }

    /// Nothing has this verdict but these checks. How fast a server answers is up to the machine.
    #[track_caller]
    fn has_only(&self, verdict: &str, checks: &[&str]) -> &Self {
        let mut found: Vec<&str> = self
            .lines
            .iter()
            .filter(|line| line["verdict"] == verdict)
            .filter_map(|line| line["check"].as_str())
            .filter(|check| !["latency", "clock-rate"].contains(check))
            .collect();
        found.dedup();
        assert_eq!(found, checks, "{:#?}", self.lines);
        self
    }
}

/// A user who may do this, and the URL for it.
fn with_user(server: &Server, user: &str, rules: &[&str]) -> String {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER")
        .arg(user)
        .arg("on")
        .arg(">secret")
        .arg(rules);
    server.ask::<()>(&acl);
    format!("redis://{user}:secret@{}", server.address())
}

/// The rules of the line in docs/permissions.md.
fn readme_rules() -> Vec<String> {
    let readme = crate::readme::documentation();
    let line = readme.lines().find(|line| line.starts_with("ACL SETUSER"));
    let words = line.expect("the line").split(' ').skip(5);
    words.map(Into::into).collect()
}

/// Neither keys nor subscriptions.
#[track_caller]
fn nothing_is_left(server: &Server) {
    assert_eq!(
        server.ask::<Vec<String>>(redis::cmd("KEYS").arg("*")),
        [""; 0]
    );
    // Of connections that have just been closed.
    eventually("subscriptions to end", || {
        let channels: Vec<String> =
            server.ask(redis::cmd("PUBSUB").arg("CHANNELS").arg("redisson_lock__*"));
        channels.is_empty()
    });
}
