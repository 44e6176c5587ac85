//! The watchdog cannot open a connection of its own, and uses those of the callers.

use super::{open_links, user};
use crate::support::prelude::*;
use crate::support::run;

/// Ways in which a server refuses further connections of its user `worker`.
const REFUSALS: [&str; 3] = [
    "ACL SETUSER worker resetpass >other",
    "CONFIG SET maxclients 2",
    "CONFIG SET port 0",
];

#[test]
fn a_held_lock_is_renewed_on_an_open_link() {
    for refusal in REFUSALS {
        let server = &Server::start();
        let client = builder(&user(server)).build().unwrap();
        let lock = client.reentrant_lock("lock");
        pair(&lock);
        let mut admin = server.connection();
        run(&mut admin, refusal);
        let guard = lock.acquire().unwrap();
        eventually("renewals", || client.stats().renewals >= 4);
        guard.check().expect("it is renewed");
        pair(&client.reentrant_lock("another"));
        guard.unlock().unwrap();
        assert_eq!(client.stats().lost, 0, "{refusal}");
    }
}

/// Far more than a second before the end of its lease.
#[test]
fn an_idle_grant_is_released_on_an_open_link() {
    for refusal in REFUSALS {
        let server = &Server::start();
        let builder = builder(&user(server)).watchdog_lease(SOON.get() * 6);
        let client = builder.linger(millis(50)).build().unwrap();
        client.inspect("lock").unwrap();
        let mut admin = server.connection();
        run(&mut admin, refusal);
        pair(&client.reentrant_lock("lock"));
        eventually("its release", || {
            let exists: bool = redis::cmd("EXISTS").arg("lock").query(&mut admin).unwrap();
            !exists
        });
    }
}

/// The end of one connection says little of the others, which cannot be replaced.
#[test]
fn connections_outlast_the_end_of_another_one() {
    for refusal in REFUSALS {
        let server = &Server::start();
        let mut admin = server.connection();
        let client = builder(&user(server)).command_timeout(SOON.get());
        let client = client.watchdog_lease(millis(1_500)).build().unwrap();
        let mut open = open_links(&mut admin, &client, 3);
        run(&mut admin, &refusal.replace("maxclients 2", "maxclients 4"));
        let guard = client.reentrant_lock("lock").acquire().unwrap();
        let killed = open.pop_first().unwrap();
        // Another client takes its place.
        let kill = format!("CLIENT KILL {}", killed.replace('=', " "));
        run(&mut admin, &kill);
        let _other = refusal.contains("maxclients").then(|| server.connection());
        thread::scope(|scope| {
            for at in 0..4 {
                let lock = client.reentrant_lock(&format!("thread:{at}"));
                scope.spawn(move || (0..25).for_each(|_| pair(&lock)));
            }
        });
        let renewals = client.stats().renewals;
        eventually("renewals", || client.stats().renewals >= renewals + 3);
        guard.unlock().unwrap();
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut admin).unwrap();
        let is_open = |id: &String| list.contains(&format!("{id} "));
        assert!(open.iter().all(is_open), "{refusal}: {list}");
    }
}

/// The role: holds a lock for several leases without a further file descriptor.
#[cfg(target_os = "linux")]
pub fn without_descriptors(arguments: &[&str]) {
    let client = builder(arguments[0]).build().unwrap();
    let lock = client.reentrant_lock("lock");
    pair(&lock);
    let limit = std::process::Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string(), "--nofile=64:64"])
        .status();
    assert!(limit.expect("prlimit is there").success());
    let open = || std::fs::File::open("/dev/null");
    let files: Vec<_> = std::iter::from_fn(|| open().ok()).collect();
    let guard = lock.acquire().unwrap();
    eventually("renewals", || client.stats().renewals >= 4);
    guard.unlock().expect("it is renewed");
    assert!(open().is_err(), "no descriptor is left");
    drop(files);
    child::send_line("held");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_without_a_file_descriptor_keeps_its_lock() {
    let server = Server::start();
    let told = child::run_role("without_descriptors", &[&server.url()]);
    assert_eq!(told, ["held"]);
}
