//! `leasehold run` as the first process of a container.

use super::{can_wrap, job, wrap};
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
