//! Many cron jobs at once.

use super::{keys, over, run, until};
use crate::locks::{client, with_long_timeout};
use crate::program::Program;
use crate::support::deployment::Independent;
use crate::support::server::Server;
use crate::support::timing::eventually;

const JOBS: usize = 20;

#[test]
fn of_many_jobs_that_do_not_wait_one_runs() {
    let server = Server::start();
    one_runs(|| with_long_timeout(&server.url()).arg("run"));
    assert!(keys(&server).is_empty());
}

/// Each gets a part of the servers at first.
#[test]
fn of_many_jobs_on_independent_servers_one_runs() {
    let servers = Independent::start(3);
    let urls = servers.urls().join(",");
    servers.kill(2);
    one_runs(|| with_long_timeout(&urls).args(["--redlock", "run"]));
}

fn one_runs(program: impl Fn() -> Program) {
    let (_directory, over) = over();
    let script = format!("echo ran; {}", until(&over));
    let mut jobs: Vec<_> = (0..JOBS)
        .map(|_| program().arg("--no-wait").locked("cron", &script).start())
        .collect();
    let mut running: Vec<_> = Vec::new();
    eventually("all but one to give up", || {
        running = (0..JOBS).filter(|&at| jobs[at].is_running()).collect();
        running.len() == 1
    });
    std::fs::write(&over, "").unwrap();
    let winner = jobs.swap_remove(running[0]).end();
    assert_eq!(winner.expect(0).text(), "ran\n");
    for job in jobs {
        assert_eq!(
            job.end()
                .expect_failure(75, &["another client or thread"])
                .text(),
            ""
        );
    }
}

#[test]
fn of_many_jobs_that_wait_all_run_one_at_a_time() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("place");
    let script = format!(
        "mkdir '{0}' && sleep 0.01 && rmdir '{0}' && echo alone",
        place.display()
    );
    let jobs: Vec<_> = (0..JOBS)
        .map(|_| {
            run(&server)
                .args(["--wait", "60s"])
                .locked("cron", &script)
                .start()
        })
        .collect();
    for job in jobs {
        assert_eq!(job.end().expect(0).text(), "alone\n");
    }
    assert!(keys(&server).is_empty());
}

#[test]
fn a_job_with_a_fair_lock_waits_behind_clients_that_came_before() {
    let server = Server::start();
    let ask = |command: &mut redis::Cmd| server.ask::<()>(command);
    let (queue, ends) = ("redisson_lock_queue:{cron}", "redisson_lock_timeout:{cron}");
    ask(redis::cmd("ZADD")
        .arg(ends)
        .arg(4_102_444_800_000_u64)
        .arg("java:1"));
    ask(redis::cmd("RPUSH").arg(queue).arg("java:1"));
    let job = || {
        run(&server)
            .args(["--kind", "fair", "--no-wait"])
            .locked("cron", "echo ran")
    };
    let refused = job().output();
    assert_eq!(refused.expect_failure(75, &["another client"]).text(), "");
    ask(redis::cmd("DEL").arg(queue));
    assert_eq!(job().output().expect(0).text(), "ran\n");
}

#[test]
fn of_many_jobs_with_permits_some_run_at_the_same_time() {
    let server = Server::start();
    let (_directory, over) = over();
    let script = format!("echo ran; {}", until(&over));
    let job = || run(&server).args(["--kind", "permits=2", "--no-wait"]);
    let jobs: Vec<_> = (0..2)
        .map(|_| job().locked("cron", &script).start())
        .collect();
    eventually("both permits to be taken", || {
        let free: Option<u32> = server.ask(redis::cmd("GET").arg("cron"));
        free == Some(0)
    });
    let refused = job().locked("cron", "echo ran").output();
    assert_eq!(refused.expect_failure(75, &["another client"]).text(), "");
    std::fs::write(&over, "").unwrap();
    for job in jobs {
        assert_eq!(job.end().expect(0).text(), "ran\n");
    }
    assert_eq!(
        job().locked("cron", "echo ran").output().expect(0).text(),
        "ran\n"
    );
}

#[test]
fn a_job_with_a_write_lock_excludes_readers() {
    let server = Server::start();
    let lock = client(&server).read_write_lock("cron");
    let job = |kind| {
        run(&server)
            .args(["--kind", kind, "--no-wait"])
            .locked("cron", "echo ran")
    };
    let guard = lock.read().acquire().unwrap();
    assert_eq!(job("read").output().expect(0).text(), "ran\n");
    job("write")
        .output()
        .expect_failure(75, &["another client"]);
    guard.unlock().unwrap();
    assert_eq!(job("write").output().expect(0).text(), "ran\n");
}
