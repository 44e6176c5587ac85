//! The time from an unlock in another process to the return of `lock` in this one. The floor is a
//! release script, its message, and an acquire script on raw connections.
//!
//! The time is one way, from just before the peer's unlock to just after the return of `lock`, by
//! CLOCK_MONOTONIC, which all processes of a machine share. Half of a round trip would include what
//! each process does between its own unlock and its next wait.

#[path = "support/mod.rs"]
mod support;

use std::{
    cell::RefCell,
    env,
    io::{self, Read, Write},
    process::{Child, ChildStdin, ChildStdout},
    thread,
    time::Duration,
};

use criterion::Criterion;
use leasehold::LockClient;
use redis::Connection;
use support::{
    Server,
    clock::now,
    compare, pin_clients,
    raw_client::{RawClient, channel},
    start_again,
    table::{Bound, Table},
};

const OURS: &str = "handoff:ours";
const FLOOR: &str = "handoff:floor";

/// The environment variable that starts a peer: the URL of the server.
const PEER_URL: &str = "LEASEHOLD_BENCH_OTHER";
const PEER_OWNER: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff:1";

/// The least time for which the peer holds the lock. This process waits for it and sleeps
/// meanwhile.
const HELD_FOR: Duration = Duration::from_millis(2);

/// After this many nanoseconds a waiting thread sleeps.
const SETTLED: u64 = 1_000_000;

/// The requests to the peer, and its reply.
const HOLD_OURS: u8 = b'o';
const HOLD_FLOOR: u8 = b'f';
const HELD: u8 = b'h';

/// Runs the peer: on each request it acquires a lock, replies, unlocks it a little later, and
/// replies when it did so.
fn run_peer(url: &str) -> io::Result<()> {
    let client = LockClient::connect(url).expect("the URL is good");
    let lock = client.reentrant_lock(OURS);
    let connection = redis::Client::open(url).and_then(|client| client.get_connection());
    let mut raw = RawClient::on(connection.expect("the server is up"), PEER_OWNER);
    let (mut requests, mut replies) = (io::stdin().lock(), io::stdout().lock());
    let mut request = [0];
    for round in 0.. {
        if requests.read(&mut request)? == 0 {
            break;
        }
        let is_ours = request == [HOLD_OURS];
        if is_ours {
            lock.lock().expect("free");
        } else {
            assert!(raw.acquire(FLOOR));
        }
        replies.write_all(&[HELD])?;
        replies.flush()?;
        // The time varies, so that it does not coincide with a periodic event of the machine.
        thread::sleep(HELD_FOR + Duration::from_micros(round % 16 * 60));
        let unlocked = now();
        if is_ours {
            lock.unlock().expect("held");
        } else {
            raw.release(FLOOR);
        }
        replies.write_all(&unlocked.to_le_bytes())?;
        replies.flush()?;
    }
    Ok(())
}

/// The other process. Dropping this value ends it.
struct Peer {
    process: Child,
    requests: ChildStdin,
    replies: ChildStdout,
}

impl Peer {
    fn start(server: &Server) -> Self {
        let mut process = start_again(PEER_URL, &server.url());
        Self {
            requests: process.stdin.take().expect("piped"),
            replies: process.stdout.take().expect("piped"),
            process,
        }
    }

    /// The time from the peer's unlock to the time that `take` returns after it has acquired the
    /// lock.
    fn round(&mut self, what: u8, mut take: impl FnMut() -> u64) -> Duration {
        loop {
            self.hold(what);
            let came = now();
            let locked = take();
            let unlocked = self.unlocked();
            // Repeats the round if this thread was not yet waiting at the unlock.
            if came + SETTLED <= unlocked {
                return Duration::from_nanos(locked - unlocked);
            }
        }
    }

    /// Lets the peer acquire the lock. Returns while it holds it.
    fn hold(&mut self, what: u8) {
        self.requests.write_all(&[what]).expect("it reads");
        let mut held = [0];
        self.replies.read_exact(&mut held).expect("it replies");
        assert_eq!(held, [HELD]);
    }

    /// The time just before the peer's unlock.
    fn unlocked(&mut self) -> u64 {
        let mut unlocked = [0; 8];
        self.replies.read_exact(&mut unlocked).expect("it replies");
        u64::from_le_bytes(unlocked)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The floor of a waiter: one connection for messages, one for scripts.
struct Waiter {
    raw: RawClient,
    listening: Connection,
}

impl Waiter {
    fn new(server: &Server) -> Self {
        let mut listening = server.connection();
        let subscribe = redis::cmd("SUBSCRIBE")
            .arg(channel(FLOOR))
            .get_packed_command();
        listening.send_packed_command(&subscribe).expect("sent");
        listening.recv_response().expect("confirmed");
        Self {
            raw: RawClient::new(server),
            listening,
        }
    }

    fn take(&mut self) -> u64 {
        let mut taken = self.raw.acquire(FLOOR);
        self.message();
        if !taken {
            taken = self.raw.acquire(FLOOR);
        }
        assert!(taken, "no other client wants the lock");
        now()
    }

    /// Releases the lock, and receives the message of the release.
    fn release(&mut self) {
        self.raw.release(FLOOR);
        self.message();
    }

    fn message(&mut self) {
        self.listening.recv_response().expect("a message");
    }
}

fn main() {
    if let Ok(url) = env::var(PEER_URL) {
        // The peer ends when the pipe from its parent is closed.
        let _ = run_peer(&url);
        return;
    }
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let lock = client.reentrant_lock(OURS);
    let mut waiter = Waiter::new(&server);
    let peer = RefCell::new(Peer::start(&server));
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let handoff = compare(
        &mut criterion,
        "unlock there to lock here",
        || {
            peer.borrow_mut().round(HOLD_OURS, || {
                lock.lock().expect("the lock");
                let locked = now();
                lock.unlock().expect("held");
                locked
            })
        },
        || {
            peer.borrow_mut().round(HOLD_FLOOR, || {
                let locked = waiter.take();
                waiter.release();
                locked
            })
        },
    );
    table.comparison("unlock there to lock here", &handoff, Bound::AtMost(1.10));

    criterion.final_summary();
    table.print();
}
