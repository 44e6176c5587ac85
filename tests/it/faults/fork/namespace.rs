//! A fork into a new PID namespace, where the child can have the process id of its parent.

use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use super::{Held, assert_unaffected};
use crate::support::prelude::*;

/// The command that starts a program in its own PID namespace, if the system permits one.
fn with_own_pids() -> Option<&'static [&'static str]> {
    const AS_ROOT: &[&str] = &["unshare", "--pid", "--fork", "--kill-child"];
    const AS_USER: &[&str] = &[
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
    ];
    [AS_ROOT, AS_USER].into_iter().find(|launcher| {
        let output = Command::new(launcher[0])
            .args(&launcher[1..])
            .arg("true")
            .output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// The role: process 1 of a PID namespace forks a child that is process 1 of another one.
pub fn fork_into_a_namespace(arguments: &[&str]) {
    let [url, prefix] = child::named(arguments);
    assert_eq!(std::process::id(), 1);
    let held = Held::take(url, prefix);
    unshare(CloneFlags::CLONE_NEWPID).expect("the parent was permitted the same");
    let held = held.fork();
    assert!(held.is_held());
    held.end();
}

#[test]
fn a_child_with_its_parents_process_id_has_none_of_its_locks() {
    let Some(launcher) = with_own_pids() else {
        println!("skipped: this system does not permit a PID namespace");
        return;
    };
    assert_unaffected(&Server::start(), |arguments| {
        Process::start_under(launcher, "fork_into_a_namespace", arguments)
    });
}
