//! `leasehold doctor`: what it says of servers that are well, and of those that are not.

mod deployments;
mod rights;
mod servers;

use serde_json::Value;

use crate::locks::{command, keys, objects};
use crate::program::{Output, Program, leasehold};
use crate::support::server::Server;
use crate::support::timing::{eventually, millis};

#[path = "../../../tests/it/support/faked_clock.rs"]
#[allow(dead_code, reason = "a part is for processes of tests")]
mod faked_clock;

/// The kinds that are tried.
const KINDS: [&str; 9] = [
    "reentrant",
    "fenced",
    "fair",
    "read",
    "write",
    "condition",
    "semaphore",
    "permits",
    "latch",
];

/// The program, which gives a busy machine the time that it needs.
fn at(url: &str) -> Program {
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
    let lines = objects(&output);
    Report { lines, output }
}

/// Of one server or of several, with a status.
#[track_caller]
fn expect(code: i32, url: &str, arguments: &[&str]) -> Report {
    report(at(url), arguments).expect(code)
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
        let is_of_check = |line: &&Value| line["check"] == check;
        let of: Vec<_> = self.lines.iter().filter(is_of_check).collect();
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
        let of_verdict = self.lines.iter().filter(|line| line["verdict"] == verdict);
        let mut found: Vec<&str> = of_verdict.flat_map(|line| line["check"].as_str()).collect();
        found.retain(|check| *check != "clock");
        found.dedup();
        assert_eq!(found, checks, "{:#?}", self.lines);
        self
    }

    /// Every kind can be used.
    #[track_caller]
    fn allows_every_kind(&self) -> &Self {
        for kind in KINDS {
            self.says(kind, "ok", &["acquired"]);
        }
        self.says("rights", "ok", &[])
    }
}

/// The rules of the line in docs/permissions.md.
fn readme_rules() -> String {
    let readme = crate::readme::documentation();
    let mut lines = readme.lines();
    let line = lines.find(|line| line.starts_with("ACL SETUSER"));
    line.expect("the line")
        .splitn(6, ' ')
        .nth(5)
        .unwrap()
        .into()
}

/// Neither keys nor subscriptions. The records of requests end by themselves.
#[track_caller]
fn nothing_is_left(server: &Server) {
    let mut left = keys(server);
    left.retain(|key| !key.contains("}:leasehold:"));
    assert_eq!(left, [""; 0]);
    // Of connections that have just been closed.
    let channels = command("PUBSUB CHANNELS redisson_lock__*");
    eventually("subscriptions to end", || {
        server.ask::<Vec<String>>(&channels).is_empty()
    });
}
