//! From another process's unlock to our `lock` returning, beside the same by hand: a release by
//! script, its message, and an acquire by script.
//!
//! The time is one way, from just before the other process unlocks to just after our `lock`
//! returns, by CLOCK_MONOTONIC, which all processes of a machine share. Half of a round trip would
//! not do: what a process does between its own unlock and its next wait would be in it.

#[path = "support/mod.rs"]
mod support;

use std::{
    cell::RefCell,
    env,
    io::{self, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use criterion::Criterion;
use leasehold::LockClient;
use redis::Connection;
use rustix::time::{ClockId, clock_gettime};
use support::{
    Server, compare, pin_clients,
    raw_client::{RawClient, channel},
    table::{Bound, Table},
};

const OURS: &str = "handoff:ours";
const FLOOR: &str = "handoff:floor";

/// Set for the other process: the URL of the server.
const PEER_URL: &str = "LEASEHOLD_BENCH_OTHER";
const PEER_OWNER: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff:1";

/// How long the other process holds the lock at least: we wait for it by then, and sleep.
const HELD_FOR: Duration = Duration::from_millis(2);

/// Nanoseconds after which whoever came for the lock surely sleeps.
const SETTLED: u64 = 1_000_000;

/// What the other process is asked to do, and what it replies.
const HOLD_OURS: u8 = b'o';
const HOLD_FLOOR: u8 = b'f';
const HELD: u8 = b'h';

/// Nanoseconds of a clock that all processes share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec))
        .expect("after the start of the machine")
}

/// Takes a lock, says so, unlocks it a little later, and tells when.
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
        // Not always the same, or one side might always meet the same tick of something.
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

/// The other process, which ends with this value.
struct Peer {
    process: Child,
    requests: ChildStdin,
    replies: ChildStdout,
}

impl Peer {
    fn start(server: &Server) -> Self {
        let mut process = Command::new(env::current_exe().expect("this program"))
            .env(PEER_URL, server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program again");
        Self {
            requests: process.stdin.take().expect("piped"),
            replies: process.stdout.take().expect("piped"),
            process,
        }
    }

    /// From its unlock to the time at which `take`, which waits for that, says that it has the lock.
    fn round(&mut self, what: u8, mut take: impl FnMut() -> u64) -> Duration {
        loop {
            self.hold(what);
            let came = now();
            let locked = take();
            let unlocked = self.unlocked();
            // If the machine kept us from coming in time there was nothing to wait for.
            if came + SETTLED <= unlocked {
                return Duration::from_nanos(locked - unlocked);
            }
        }
    }

    /// Returns while the other process holds the lock.
    fn hold(&mut self, what: u8) {
        self.requests.write_all(&[what]).expect("it reads");
        let mut held = [0];
        self.replies.read_exact(&mut held).expect("it replies");
        assert_eq!(held, [HELD]);
    }

    /// When it began to unlock.
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

/// One thread waits for a message on one connection, and acquires on another.
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
        assert!(taken, "nobody else wants it");
        now()
    }

    /// Gives the lock back, and hears of it itself.
    fn give_back(&mut self) {
        self.raw.release(FLOOR);
        self.message();
    }

    fn message(&mut self) {
        self.listening.recv_response().expect("a message");
    }
}

fn main() {
    if let Ok(url) = env::var(PEER_URL) {
        // When we end, so does this.
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
                waiter.give_back();
                locked
            })
        },
    );
    table.comparison("unlock there to lock here", &handoff, Bound::AtMost(1.6));

    criterion.final_summary();
    table.print();
}
