//! Jobs with each kind of lock, beside other clients.

use super::{Over, job};
use crate::locks::{client, send, send_all};
use crate::support::server::Server;
use crate::support::timing::eventually;

#[test]
fn a_job_with_a_fair_lock_waits_behind_clients_that_came_before() {
    let server = Server::start();
    send_all(
        &server,
        &[
            "ZADD redisson_lock_timeout:{k} 4102444800000 java:1",
            "RPUSH redisson_lock_queue:{k} java:1",
        ],
    );
    let job = || job(&server, "--kind fair --no-wait", "echo ran").output();
    job().expect_refusal(75, &["another client"]);
    send(&server, "DEL redisson_lock_queue:{k}");
    job().expect_all(0, "ran\n", "");
}

#[test]
fn of_many_jobs_with_permits_some_run_at_the_same_time() {
    let server = Server::start();
    let over = Over::new();
    let job = |script: &str| job(&server, "--kind permits=2 --no-wait", script).start();
    let script = format!("echo ran; {}", over.until());
    let jobs = [job(&script), job(&script)];
    eventually("both permits to be taken", || {
        server.ask::<Option<u32>>(redis::cmd("GET").arg("k")) == Some(0)
    });
    job("echo ran")
        .end()
        .expect_refusal(75, &["another client"]);
    over.create();
    for job in jobs {
        job.end().expect_all(0, "ran\n", "");
    }
    job("echo ran").end().expect_all(0, "ran\n", "");
}

#[test]
fn a_job_with_a_write_lock_excludes_readers() {
    let server = Server::start();
    let guard = client(&server)
        .read_write_lock("k")
        .read()
        .acquire()
        .unwrap();
    let job = |kind: &str| {
        let options = format!("--no-wait --kind {kind}");
        job(&server, &options, "echo ran").output()
    };
    job("read").expect_all(0, "ran\n", "");
    job("write").expect_refusal(75, &["\"k\" is not free", "(owner: ", ", process "]);
    guard.unlock().unwrap();
    job("write").expect_all(0, "ran\n", "");
}
