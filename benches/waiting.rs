//! Many threads wait for as many locks of another client, on an idle machine and beside two busy
//! loops: the requests and the CPU time until all of them sleep, the commands that they send while
//! they wait, and the time until all have had their locks after the release.

#[path = "support/mod.rs"]
mod support;

use std::{
    env, hint, io, process,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use leasehold::{LockClient, ReentrantLock};
use support::{
    Server,
    commands::commands,
    is_list, is_test, length, pin_clients,
    raw_pairs::{Scripts, Waited},
    server::{CLIENT_CORE, SERVER_CORE, pin_to},
    start_again,
    table::{Bound, Table},
    usage::cpu_time,
};

/// The environment variable that starts a busy loop: the core.
const BUSY: &str = "LEASEHOLD_BENCH_BUSY";

/// A thread that only waits needs little.
const STACK_BYTES: usize = 256 * 1024;

/// All threads sleep if the process uses less CPU time than this in half a second.
const QUIET: Duration = Duration::from_millis(20);

/// Before the leases of the locks end: a waiting thread tries again then.
const SLEEP_WITHIN: Duration = Duration::from_secs(90);
const ACQUIRED_WITHIN: Duration = Duration::from_secs(60);

fn main() {
    if let Ok(core) = env::var(BUSY) {
        be_busy(&core);
    }
    if is_list() {
        return;
    }
    pin_clients();
    let mut table = Table::new();
    let [few, many] = if is_test() {
        [50, 100]
    } else {
        [1_000, 10_000]
    };
    for (count, busy) in [(few, false), (many, false), (many, true)] {
        let loops = busy.then(|| [SERVER_CORE, CLIENT_CORE].map(Busy::start));
        let cost = measure(count);
        drop(loops);
        report(&mut table, count, busy, &cost);
    }
    table.print();
}

/// A process that only computes, on one core. Dropping this value ends it.
struct Busy(Child);

impl Busy {
    fn start(core: &str) -> Self {
        Self(start_again(BUSY, core))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Computes until the parent closes the pipe.
fn be_busy(core: &str) -> ! {
    pin_to(core);
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
    loop {
        hint::spin_loop();
    }
}

/// What it costs to wait.
#[derive(Default)]
struct Cost {
    /// Until all threads sleep.
    settled: Duration,
    cpu: Duration,
    script_calls: u64,
    subscribes: u64,
    /// While all of them sleep.
    commands: u64,
    listening: Duration,
    /// From the release until the last thread has had its lock.
    released: Duration,
    failed: usize,
}

/// The threads, and what became of their calls.
#[derive(Default)]
struct Calls {
    acquired: AtomicUsize,
    failed: AtomicUsize,
}

impl Calls {
    fn ended(&self) -> usize {
        self.acquired.load(Ordering::Relaxed) + self.failed.load(Ordering::Relaxed)
    }

    fn run(&self, lock: &ReentrantLock) {
        let done = lock.lock().and_then(|()| lock.unlock());
        let count = match done {
            Ok(()) => &self.acquired,
            Err(_) => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn measure(count: usize) -> Cost {
    let server = Server::start();
    let names: Vec<_> = (0..count)
        .map(|number| format!("waited:{number}"))
        .collect();
    let mut holder = Waited::acquire(&server.url(), &Scripts::load(&server.url()), &names);
    let client = server.client();
    client.ping().expect("the server is up");
    let calls = Arc::new(Calls::default());
    let mut cost = Cost::default();

    let (start, cpu, counts) = (Instant::now(), cpu_time(), server.command_counts());
    let threads: Vec<_> = names
        .iter()
        .map(|name| wait_for(&client, name, &calls))
        .collect();
    cost.settled = until_quiet(start);
    cost.cpu = cpu_time() - cpu;
    let now = server.command_counts();
    let since = |command| now.of(command) - counts.of(command);
    cost.script_calls = since("evalsha") + since("eval");
    cost.subscribes = since("subscribe") + since("ssubscribe");

    cost.listening = length(Duration::from_secs(10), Duration::from_millis(300));
    cost.commands = commands(&[server.address()], || thread::sleep(cost.listening));
    let acquired = calls.acquired.load(Ordering::Relaxed);
    assert_eq!(acquired, 0, "another client has the locks");

    let start = Instant::now();
    holder.release();
    while calls.ended() < count && start.elapsed() < ACQUIRED_WITHIN {
        thread::sleep(Duration::from_millis(1));
    }
    cost.released = start.elapsed();
    threads
        .into_iter()
        .for_each(|one| one.join().expect("no panic"));
    cost.failed = calls.failed.load(Ordering::Relaxed);
    cost
}

fn wait_for(client: &LockClient, name: &str, calls: &Arc<Calls>) -> thread::JoinHandle<()> {
    let (lock, calls) = (client.reentrant_lock(name), Arc::clone(calls));
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    thread
        .spawn(move || calls.run(&lock))
        .expect("enough threads")
}

/// Waits until the process uses hardly any CPU time. Returns the time since `start`.
fn until_quiet(start: Instant) -> Duration {
    loop {
        let (before, cpu) = (start.elapsed(), cpu_time());
        thread::sleep(Duration::from_millis(500));
        if cpu_time() - cpu < QUIET || before > SLEEP_WITHIN {
            return before;
        }
    }
}

fn report(table: &mut Table, count: usize, busy: bool, cost: &Cost) {
    let beside = if busy { ", beside two busy loops" } else { "" };
    let what = |figure| format!("{count} threads wait for {count} locks{beside}: {figure}");
    // The bounds of times are those of an idle machine and 10,000 threads.
    let idle = |bound| if busy { Bound::None } else { bound };
    let mut add = |figure, ours: String, value, unit, bound| {
        table.figure(&what(figure), (ours, String::new()), (value, unit), bound);
    };
    let none = String::new;
    add(
        "failed calls",
        none(),
        cost.failed as f64,
        "",
        Bound::AtMost(0.0),
    );
    let each = |calls: u64| calls as f64 / count as f64;
    let scripts = cost.script_calls;
    let bound = Bound::AtMost(2.0);
    add(
        "script calls for each",
        scripts.to_string(),
        each(scripts),
        "",
        bound,
    );
    let subscribes = cost.subscribes;
    let bound = Bound::AtMost(0.01);
    add(
        "SUBSCRIBEs for each",
        subscribes.to_string(),
        each(subscribes),
        "",
        bound,
    );
    let (cpu, bound) = (cost.cpu.as_secs_f64(), idle(Bound::AtMost(3.0)));
    add("client CPU until all sleep", none(), cpu, " s", bound);
    let settled = cost.settled.as_secs_f64();
    add("time until all sleep", none(), settled, " s", Bound::None);
    let seconds = cost.listening.as_secs_f64();
    let sent = format!("{} for {seconds:.1} s", cost.commands);
    let a_second = cost.commands as f64 / seconds;
    add(
        "commands per second while they wait",
        sent,
        a_second,
        "",
        Bound::Below(1.0),
    );
    let released = cost.released.as_secs_f64();
    let bound = idle(Bound::AtMost(5.0));
    add(
        "time until all have had it after the release",
        none(),
        released,
        " s",
        bound,
    );
}
