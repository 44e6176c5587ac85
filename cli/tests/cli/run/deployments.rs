//! The same on every deployment.

use super::{Over, job};
use crate::locks::{Place, keys, send};
use crate::program::{Program, leasehold, leasehold_nowhere};
use crate::support::certificates::TRUSTED;
use crate::support::deployment::{ClusterDeployment, Independent, Replicated, SentinelDeployment};
use crate::support::server::Server;
use crate::support::timing::eventually;
use crate::support::unique;

/// A job that sees its lock, and one that is refused meanwhile.
fn works(program: impl Fn() -> Program, key: &str) {
    let over = Over::new();
    let script = format!("echo on; {}; exit 3", over.until());
    let holder = program().arg("run").locked(key, &script).start().when_on();
    let other = program().run_now(key, "echo ran").output();
    other.expect_refusal(75, &[key]);
    let waiter = program().args(["run", "--wait", "60s"]);
    let waiter = waiter.locked(key, "echo ran").start();
    over.create();
    holder.end().expect(3);
    waiter.end().expect_all(0, "ran\n", "");
}

/// The sentinels themselves ask for no password.
#[test]
fn behind_sentinels_whose_master_asks_for_a_password() {
    let deployment = SentinelDeployment::start_with_password("secret");
    for server in deployment.servers() {
        send(server, "ACL SETUSER ann on >hers +@all allchannels ~ann:*");
    }
    let urls = deployment.sentinel_urls().place();
    let program = |password: &str| {
        let program = leasehold(&urls).env("LEASEHOLD_PASSWORD", password);
        program.args(["--sentinel", deployment.master_name()])
    };
    works(|| program("secret"), "lock");
    let ann = || program("hers").args(["--user", "ann"]);
    works(ann, "ann:lock");
    let refused = ann().run_now("lock", "echo ran").output();
    refused.expect_refusal(69, &["permission"]);
}

#[test]
fn on_a_cluster() {
    let urls = ClusterDeployment::shared().urls().place();
    let program = || leasehold(&urls).arg("--cluster");
    works(program, &unique("cluster"));
    let fenced = program().args(["run", "--fenced"]);
    let fenced = fenced.locked(&unique("fenced"), "echo $LEASEHOLD_TOKEN");
    let token = fenced.output().expect(0).text();
    assert!(token.trim().parse::<u64>().is_ok(), "{token}");
}

#[test]
fn on_independent_servers() {
    let urls = Independent::shared().urls().place();
    let program = || leasehold(&urls).arg("--redlock");
    works(program, &unique("redlock"));
    let key = unique("at-least");
    let left = program().args(["run", "--at-least", "60s"]);
    left.locked(&key, "exit 4").output().expect(4);
    let refused = program().run_now(&key, "echo ran").output();
    refused.expect_failure(75, &[&key]);
}

#[test]
fn a_replica_has_the_lock_before_the_job_begins() {
    let deployment = Replicated::shared();
    let key = unique("replicated");
    let look = format!("redis-cli -p {} exists {key}", deployment.replica(0).port());
    let program = |url: &str| leasehold(url).args(["--min-replicas", "1"]);
    eventually("a replica that is in time", || {
        let output = program(&deployment.url()).run_now(&key, &look).output();
        if output.code() == Some(69) {
            // It has 100 ms, and a busy machine may let it wait for longer.
            assert!(output.err.contains("0 of 1"), "{output:?}");
            return false;
        }
        assert_eq!(output.expect(0).text(), "1\n");
        true
    });
    let alone = Server::start();
    let refused = program(&alone.url()).run_now("k", "echo ran").output();
    refused.expect_refusal(69, &["0 of 1"]);
    assert!(keys(&alone).is_empty());
}

#[test]
fn over_tls_with_a_certificate_of_its_own() {
    let server = Server::options()
        .tls_for_known_clients(&TRUSTED.issue("127.0.0.1"))
        .start();
    let directory = tempfile::tempdir().unwrap();
    let ours = TRUSTED.issue("client");
    let [authority, chain, key] = [
        ("authority.pem", &TRUSTED.pem),
        ("chain.pem", &ours.chain),
        ("key.pem", &ours.key),
    ]
    .map(|(name, pem)| {
        let file = directory.path().join(name);
        std::fs::write(&file, pem).unwrap();
        file
    });
    let url = format!("rediss://{}", server.tls_address());
    let unknown = || leasehold(&url).arg("--cacert").arg(&authority);
    let known = || unknown().arg("--cert").arg(&chain).arg("--cert-key");
    works(|| known().arg(&key), "k");
    for (program, words) in [
        (leasehold(&url), "certificate"),
        (unknown(), "CertificateRequired"),
    ] {
        let refused = program.run_now("k", "echo ran").output();
        refused.expect_refusal(69, &[words]);
    }
}

#[test]
fn over_a_socket_and_by_the_other_variable() {
    let server = Server::start();
    let valkey = server.url().replace("redis://", "valkey://");
    for url in [server.unix_url(), valkey] {
        let options = format!("--url {url}");
        job(&server, &options, "true").output().expect(0);
    }
    let program = leasehold_nowhere().env("REDIS_URL", server.url());
    program.run_now("k", "true").output().expect(0);
}
