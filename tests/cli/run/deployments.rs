//! The same on every deployment.

use super::{run, text};
use crate::program::{Program, leasehold, leasehold_nowhere};
use crate::support::certificates::TRUSTED;
use crate::support::deployment::{ClusterDeployment, Independent, SentinelDeployment};
use crate::support::server::Server;
use crate::support::timing::millis;
use crate::support::unique;

/// A job that sees its lock, and one that is refused meanwhile.
fn works(program: impl Fn() -> Program, key: &str) {
    let directory = tempfile::tempdir().unwrap();
    let over = directory.path().join("over");
    let script = format!("echo on; {}; exit 3", super::until(&over));
    let holder = program().arg("run").locked(key, &script).start();
    assert_eq!(holder.next_output(), "on\n");
    let other = program()
        .args(["run", "--no-wait"])
        .locked(key, "echo ran")
        .output();
    assert_eq!(other.expect_failure(75, &[key]).text(), "");
    let waiter = program()
        .args(["run", "--wait", "60s"])
        .locked(key, "echo ran")
        .start();
    std::fs::write(&over, "").unwrap();
    holder.end().expect(3);
    assert_eq!(waiter.end().expect(0).text(), "ran\n");
}

#[test]
fn behind_sentinels() {
    let deployment = SentinelDeployment::shared();
    let urls = deployment.sentinel_urls().join(",");
    let program = || leasehold(&urls).args(["--sentinel", deployment.master_name()]);
    works(program, &unique("sentinel"));
}

#[test]
fn on_a_cluster() {
    let deployment = ClusterDeployment::shared();
    let urls = deployment.urls().join(",");
    let program = || leasehold(&urls).arg("--cluster");
    works(program, &unique("cluster"));
    let fenced = program()
        .args(["run", "--fenced"])
        .locked(&unique("fenced"), "echo $LEASEHOLD_TOKEN");
    let token = fenced.output().expect(0).text();
    assert!(token.trim().parse::<u64>().is_ok(), "{token}");
}

#[test]
fn on_independent_servers() {
    let deployment = Independent::shared();
    let urls = deployment.urls().join(",");
    let program = || leasehold(&urls).arg("--redlock");
    works(program, &unique("redlock"));

    let key = unique("at-least");
    let left = program()
        .args(["run", "--at-least", "60s"])
        .locked(&key, "exit 4");
    left.output().expect(4);
    let refused = program()
        .args(["run", "--no-wait"])
        .locked(&key, "echo ran")
        .output();
    refused.expect_failure(75, &[&key]);
}

#[test]
fn a_majority_that_is_deleted_ends_the_job() {
    let deployment = Independent::start(5);
    let urls = deployment.urls().join(",");
    // Long before the first renewal, which would tell, too.
    let running = leasehold(&urls)
        .args(["--redlock", "run", "--lease", &text(millis(60_000))])
        .locked("k", "echo on; exec sleep 100")
        .start();
    running.next_output();
    let [silent, deleted @ .., _] = deployment.servers() else {
        unreachable!("there are five");
    };
    silent.pause();
    for server in deleted {
        // A late one may not have it.
        let _: u32 = server.ask(redis::cmd("DEL").arg("k"));
    }
    running.end().expect_failure(76, &["deleted"]);
    silent.resume();
}

#[test]
fn over_tls() {
    let server = Server::options().tls(&TRUSTED.issue("127.0.0.1")).start();
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("authority.pem");
    std::fs::write(&authority, &TRUSTED.pem).unwrap();
    let url = format!("rediss://{}", server.tls_address());
    works(|| leasehold(&url).arg("--cacert").arg(&authority), "k");
    let untrusted = leasehold(&url)
        .args(["run", "--no-wait"])
        .locked("k", "echo ran")
        .output();
    assert_eq!(untrusted.expect_failure(69, &["certificate"]).text(), "");
}

#[test]
fn over_a_socket_and_by_the_other_variable() {
    let server = Server::start();
    run(&server)
        .args(["--url", &server.unix_url()])
        .locked("k", "true")
        .output()
        .expect(0);
    let program = leasehold_nowhere()
        .env("REDIS_URL", server.url())
        .arg("run");
    program.locked("k", "true").output().expect(0);
}
