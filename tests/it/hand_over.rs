//! Locks that pass from thread to thread of one client without a request.

mod linger;

use crate::support::prelude::*;

const THREADS: usize = 8;

/// Threads of this client acquire the lock and release it while `work` runs.
fn keep_busy_during<T>(
    client: &LockClient,
    threads: usize,
    inside: Duration,
    work: impl FnOnce() -> T,
) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let lock = client.reentrant_lock("lock");
                while !is_over.load(Ordering::Relaxed) {
                    lock.lock().unwrap();
                    thread::sleep(inside);
                    lock.unlock().unwrap();
                }
            });
        }
        let _stop = Stop(&is_over);
        work()
    })
}

fn await_hand_overs(client: &LockClient) {
    let before = client.stats().hand_overs;
    eventually("some hand-overs", || client.stats().hand_overs > before + 5);
}

#[test]
fn eight_threads_send_far_fewer_commands_than_they_acquire() {
    const EACH: usize = 500;
    let server = Server::start();
    let client = client(&server.url());
    traffic::reset(&server);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let lock = client.reentrant_lock("lock");
                for _ in 0..EACH {
                    lock.lock().unwrap();
                    lock.unlock().unwrap();
                }
            });
        }
    });
    let stats = client.stats();
    let holds = stats.acquisitions + stats.hand_overs;
    assert_eq!(holds, (THREADS * EACH) as u64);
    let sent = traffic::sent(&server, stats.releases);
    assert!(sent * 5 < holds, "{sent} commands for {holds} holds");
    assert_eq!(server.size(), 0);
}

/// The slice begins with the reply of Redis, so a round trip may be longer than a slice.
#[test]
fn threads_hand_a_lock_over_however_far_redis_is() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(SOON.get()).build().unwrap();
    let round_trip = Duration::from_millis(20);
    proxied
        .proxy
        .on_request(move |_| Fault::Latency(round_trip));
    keep_busy_during(&client, THREADS, Duration::ZERO, || {
        await_hand_overs(&client);
    });
    assert_eq!(proxied.server.size(), 0);
}
