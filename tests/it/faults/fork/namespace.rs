//! A fork into a new PID namespace, where the child can have the process id of its parent.

use std::process::Command;

use fork::Fork;
use nix::sched::{CloneFlags, unshare};

use super::{Held, run_child, wait_for};
use crate::faults::in_redis;
use crate::support::child::{self, Process};
use crate::support::server::Server;
use crate::support::unique;

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
    let &[url, prefix] = arguments else {
        panic!("{arguments:?}")
    };
    assert_eq!(std::process::id(), 1);
    let held = Held::take(url, prefix);
    child::send_line("held");
    assert_eq!(child::read_line(), "fork");
    unshare(CloneFlags::CLONE_NEWPID).expect("the parent was permitted the same");
    let child = match fork::fork().expect("the system can fork") {
        Fork::Parent(child) => child,
        Fork::Child => run_child(|| {
            assert_eq!(std::process::id(), 1);
            held.is_not_held();
            held.sends_nothing();
            held.drop_all();
        }),
    };
    wait_for(child);
    assert!(held.is_held());
    child::send_line("tried");
    assert_eq!(child::read_line(), "end");
    for _ in 0..2 {
        held.unguarded.unlock().expect("it is held");
    }
    for guard in held.by_guards {
        guard.unlock().expect("it is held");
    }
}

#[test]
fn a_child_with_its_parents_process_id_has_none_of_its_locks() {
    let Some(launcher) = with_own_pids() else {
        println!("skipped: this system does not permit a PID namespace");
        return;
    };
    let server = Server::start();
    let prefix = unique("fork");
    let names = ["unguarded", "unlocked", "dropped", "kept"].map(|what| format!("{prefix}:{what}"));
    let holders = || {
        names
            .each_ref()
            .map(|name| in_redis::holders(&server, name))
    };
    let arguments = [&*server.url(), &prefix];
    let mut parent = Process::start_under(launcher, "fork_into_a_namespace", &arguments);
    assert_eq!(parent.read_line(), "held");
    in_redis::holder_with_count(&server, &names[0], 2);
    let before = holders();
    parent.send_line("fork");
    assert_eq!(parent.read_line(), "tried");
    assert_eq!(holders(), before);
    parent.send_line("end");
    parent.finish();
    for name in &names {
        assert!(in_redis::is_free(&server, name), "{name}");
    }
}
