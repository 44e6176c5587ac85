//! What makes no sense, or cannot work: one line, a status, and nothing locked.

use super::{job, run, text};
use crate::locks::{command, keys, send};
use crate::support::server::Server;
use crate::support::timing::{millis, within};

#[test]
fn it_is_reported_in_one_line_and_nothing_is_locked() {
    let server = Server::start();
    let long = format!("{} -- true", "k".repeat(513));
    for (args, words) in [
        ("--lease soon k -- true", "--lease"),
        ("--lease 9ms k -- true", "10ms"),
        ("--lease 300000years k -- true", "lease"),
        ("--wait=-1s k -- true", "--wait"),
        ("--no-wait --wait 1s k -- true", "--no-wait"),
        ("--max-hold 1parsec k -- true", "parsec"),
        (" -- true", "name"),
        (&long, "512"),
        ("k true", "true"),
        ("k", "COMMAND"),
        ("k --", "COMMAND"),
        ("-- true", "KEY"),
        ("--wrong k -- true", "--wrong"),
        ("--redlock --fenced k -- true", "--fenced"),
        ("--redlock --kind fair k -- true", "--kind"),
        ("--kind fair --fenced k -- true", "--fenced"),
        ("--kind spin k -- true", "spin"),
        ("--kind permits=0 k -- true", "permits=N"),
        ("--kind permits=2 --at-least 1s k -- true", "--at-least"),
        ("--redlock k -- true", "three"),
        ("--url http://there k -- true", "url"),
    ] {
        let output = run(&server).args(args.split(' ')).output();
        output.expect_refusal(64, &["leasehold: ", words]);
        assert!(keys(&server).is_empty(), "{args}");
    }
}

#[test]
fn a_key_that_is_no_lock_is_left_alone() {
    let server = Server::start();
    send(&server, "SET k precious");
    let output = job(&server, "", "echo ran").output();
    output.expect_refusal(64, &["another type"]);
    assert_eq!(server.ask::<String>(&command("GET k")), "precious");
}

#[test]
fn an_absent_redis_is_reported_in_time() {
    let server = Server::start();
    server.kill();
    let timeout = millis(200);
    for (wait, times) in [("--no-wait", 3), ("--wait=1ms", 3), ("-q", 13)] {
        let options = format!("--timeout {} {wait}", text(timeout));
        let job = job(&server, &options, "echo ran");
        let bound = timeout * times + millis(1_000);
        let output = within(bound, "to give up", || job.output());
        output.expect_refusal(69, &["no clear reply"]);
    }
}
