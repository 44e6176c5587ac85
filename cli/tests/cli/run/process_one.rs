//! `leasehold run` as the first process of a container.

use super::{FOREVER, can_wrap, job, wrap};
use crate::program::leasehold;
use crate::support::server::Server;

/// A new PID namespace, of which the program is the first process.
const CONTAINER: [&str; 5] = [
    "--map-root-user",
    "--fork",
    "--pid",
    "--mount-proc",
    "--kill-child",
];

/// Orphans that are not reaped would reach the limit of processes during a long job.
#[test]
fn it_reaps_orphans_while_its_command_runs() {
    if !can_wrap("unshare", &CONTAINER) {
        return;
    }
    let server = Server::start();
    let script = "for i in 1 2 3; do \
                    orphan=$(sleep 0.05 >/dev/null & echo $!); \
                    while [ -e /proc/$orphan ]; do sleep 0.02; done; \
                  done; echo $PPID; exit 5";
    let job = job(&server, "", script).with(|command| wrap(command, "unshare", &CONTAINER));
    job.output().expect_all(5, "1\n", "");
}

const MANIFEST: &str = include_str!("../../../../examples/recipes/kubernetes.yml");

/// What follows the name of a field in the manifest of the recipe.
fn field(name: &str) -> &'static str {
    let rest = MANIFEST.split(&format!(" {name}: ")).nth(1);
    rest.and_then(|rest| rest.lines().next()).unwrap()
}

/// At the end of a pod, its first process gets TERM, and all are killed after the grace period.
#[test]
fn the_command_of_the_recipe_for_kubernetes_ends_within_the_grace_period() {
    let command: Vec<&str> = field("command")
        .trim_matches(['[', ']'])
        .split(", ")
        .collect();
    let [
        "leasehold",
        "run",
        "--kill-after",
        kill_after,
        "importer",
        "--",
        "/app/importer",
    ] = command[..]
    else {
        panic!("{command:?}");
    };
    let seconds = |text: &str| text.trim_end_matches('s').parse::<u32>().unwrap();
    assert!(seconds(kill_after) < seconds(field("terminationGracePeriodSeconds")));

    if !can_wrap("unshare", &CONTAINER) {
        return;
    }
    let server = Server::start();
    let script = format!("trap 'echo $PPID ends; exit 0' TERM; exec 2>&-; kill -TERM 1; {FOREVER}");
    let program = leasehold(&server.url())
        .args(&command[1..6])
        .args(["sh", "-c", &script]);
    let program = program.with(|command| wrap(command, "unshare", &CONTAINER));
    program.output().expect_all(0, "1 ends\n", "");
}
