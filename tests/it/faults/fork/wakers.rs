//! The sockets that wake threads which wait for the replies of several servers.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, mpsc};

use fork::Fork;

use super::{run_child, wait_for};
use crate::support::prelude::*;

const THREADS: usize = 4;

/// The UDP sockets of this process, by their inodes.
fn wakers() -> BTreeSet<String> {
    let sockets = fs::read_to_string("/proc/self/net/udp").expect("a Linux /proc");
    let inodes = sockets.lines().skip(1);
    let inodes = inodes.filter_map(|line| line.split_whitespace().nth(9));
    let of_system: BTreeSet<_> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    let files = fs::read_dir("/proc/self/fd").expect("a Linux /proc");
    let files = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let files = files.map(|target| target.to_string_lossy().into_owned());
    files.filter(|file| of_system.contains(file)).collect()
}

/// Waits for the replies of all servers, with clients of its own.
fn wait_for_all(urls: [&str; 3]) {
    let lock = RedLock::new(&urls.map(client), &unique("wakers"));
    let guard = lock.acquire().expect("the servers reply");
    guard.unlock().expect("it is held");
}

/// The role: threads wait for several servers, one after another. Then the process forks.
pub fn fork_after_a_redlock(arguments: &[&str]) {
    let urls = child::named(arguments);
    let end = Mutex::new(());
    thread::scope(|scope| {
        let is_going_on = end.lock();
        for _ in 0..THREADS {
            let (waited, has_waited) = mpsc::channel();
            let end = &end;
            scope.spawn(move || {
                wait_for_all(urls);
                waited.send(()).expect("the thread is awaited");
                drop(end.lock());
            });
            has_waited.recv().expect("the thread panicked, see above");
        }
        assert_eq!(wakers().len(), 1, "all threads live, and none waits");
        drop(is_going_on);
    });
    wait_for_all(urls);
    let before = wakers();
    let child = match fork::fork().expect("the system can fork") {
        Fork::Parent(child) => child,
        Fork::Child => run_child(|| {
            wait_for_all(urls);
            let after = wakers();
            assert!(after.len() > before.len() && after.is_superset(&before));
        }),
    };
    wait_for(child);
    wait_for_all(urls);
    assert_eq!(wakers(), before, "the parent goes on with its own");
}

#[test]
fn threads_share_the_sockets_that_wake_them_but_a_forked_child_has_its_own() {
    let servers = [Server::start(), Server::start(), Server::start()];
    let urls = servers.each_ref().map(Server::url);
    child::run_role("fork_after_a_redlock", &urls.each_ref().map(String::as_str));
}
