//! Several names that pass from thread to thread of one client.

use crate::support::prelude::*;

/// How often each client acquires names.
const EACH: usize = 150;

/// Two clients with three threads each want two of three names. A client that hands a name over
/// keeps the others only for the thread that has it then, so no client waits for a name that no
/// thread uses.
#[test]
fn a_name_that_no_thread_takes_is_not_kept_from_other_clients() {
    const PAIRS: [[&str; 2]; 3] = [["a", "b"], ["a", "c"], ["b", "c"]];
    let server = Server::start();
    let clients = [(); 2].map(|()| client(&server.url()));
    let begun = Instant::now();
    let longest = thread::scope(|scope| {
        let worker = |client: &LockClient, first: usize| {
            let client = client.clone();
            scope.spawn(move || {
                let pairs = PAIRS.iter().cycle().skip(first);
                let waits = pairs.take(EACH).map(|pair| {
                    let begun = Instant::now();
                    let guard = client.multi_lock(pair).acquire().unwrap();
                    let waited = begun.elapsed();
                    guard.unlock().unwrap();
                    waited
                });
                waits.max()
            })
        };
        let threads = clients.iter().flat_map(|client| {
            (0..3)
                .map(|first| worker(client, first))
                .collect::<Vec<_>>()
        });
        let threads: Vec<_> = threads.collect();
        let longest = threads.into_iter().map(|thread| thread.join().unwrap());
        longest.max().flatten().unwrap()
    });
    println!("{:?}, the longest wait {longest:?}", begun.elapsed());
    assert!(longest < millis(400), "{longest:?}");
    assert_eq!(server.size(), 0);
}
