//! Eight threads of one process on one lock. With nothing to do under the lock: beside the same two
//! scripts sent by hand on one connection behind a fair in-process mutex. With 2 ms of work under
//! the lock and 20 ms of thinking outside: beside an in-process mutex alone.

#[path = "support/mod.rs"]
mod support;

use std::{
    sync::Barrier,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use criterion::Criterion;
use leasehold::{Lock, ReentrantLock};
use parking_lot::{Mutex, MutexGuard};
use support::{
    Samples, Server,
    by_hand::ByHand,
    group, is_list, length, pin_clients,
    table::{Bound, Table},
    time,
};

const THREADS: usize = 8;
const HOLD: Duration = Duration::from_millis(2);
const THINK: Duration = Duration::from_millis(20);

/// Enters the lock, does the work, leaves; how long it waited to enter.
type Enter<'a> = dyn Fn(&dyn Fn()) -> Duration + Sync + 'a;

/// What all threads did in all windows of one side.
#[derive(Default)]
struct Tally {
    acquired: u64,
    elapsed: Duration,
    waits: Samples,
    /// The fewest acquisitions of a thread by the most of another, in the worst window.
    worst: Option<f64>,
    commands: u64,
}

impl Tally {
    fn per_second(&self) -> f64 {
        self.acquired as f64 / self.elapsed.as_secs_f64()
    }

    fn worst_share(&self) -> f64 {
        self.worst.unwrap_or(0.0)
    }

    fn commands_each(&self) -> f64 {
        self.commands as f64 / self.acquired as f64
    }

    /// Runs one window, and answers with the time of one acquisition.
    fn run(
        &mut self,
        server: &Server,
        enter: &Enter<'_>,
        hold: Duration,
        think: Duration,
    ) -> Duration {
        let (before, stop, start) = (
            server.command_counts().sent(),
            AtomicBool::new(false),
            Barrier::new(THREADS + 1),
        );
        let work = || {
            let mut waits = Vec::new();
            start.wait();
            loop {
                let wait = enter(&|| pause(hold));
                if stop.load(Ordering::Relaxed) {
                    return waits;
                }
                waits.push(wait);
                pause(think);
            }
        };
        let (elapsed, waits) = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            start.wait();
            let begin = Instant::now();
            thread::sleep(window());
            stop.store(true, Ordering::Relaxed);
            let elapsed = begin.elapsed();
            let waits = threads.into_iter().map(|t| t.join().expect("no panic"));
            (elapsed, waits.collect::<Vec<_>>())
        });
        self.commands += server.command_counts().sent() - before;
        let counts = || waits.iter().map(|waits| waits.len() as u64);
        let acquired: u64 = counts().sum();
        let fewest = counts().min().unwrap_or(0) as f64;
        let share = fewest / counts().max().unwrap_or(0).max(1) as f64;
        self.worst = Some(self.worst.map_or(share, |worst| worst.min(share)));
        waits
            .iter()
            .flatten()
            .for_each(|&wait| self.waits.add(wait));
        self.acquired += acquired;
        self.elapsed += elapsed;
        elapsed / u32::try_from(acquired.max(1)).expect("fewer than that")
    }
}

/// Both sides in alternating windows; `name/ours` and `name/floor` in criterion.
fn windows(
    criterion: &mut Criterion,
    name: &str,
    server: &Server,
    (ours, floor): (&Enter<'_>, &Enter<'_>),
    (hold, think): (Duration, Duration),
) -> (Tally, Tally) {
    let (mut our_tally, mut floor_tally) = (Tally::default(), Tally::default());
    if !is_list() {
        Tally::default().run(server, ours, hold, think);
        Tally::default().run(server, floor, hold, think);
    }
    let mut group = group(criterion, name, 10, window() * 25);
    for is_ours in [true, false] {
        let id = if is_ours { "ours" } else { "floor" };
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|turns| {
                let ours = our_tally.run(server, ours, hold, think);
                let floor = floor_tally.run(server, floor, hold, think);
                let each = if is_ours { ours } else { floor };
                each.mul_f64(turns as f64)
            });
        });
    }
    group.finish();
    (our_tally, floor_tally)
}

fn window() -> Duration {
    length(Duration::from_millis(500), Duration::from_millis(100))
}

fn pause(duration: Duration) {
    if !duration.is_zero() {
        thread::sleep(duration);
    }
}

fn ours(lock: &ReentrantLock) -> impl Fn(&dyn Fn()) -> Duration + Sync {
    |work| {
        let wait = time(|| lock.lock().expect("the lock"));
        work();
        lock.unlock().expect("held");
        wait
    }
}

fn main() {
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let lock = client.reentrant_lock("contended");
    let connection = Mutex::new(ByHand::new(&server));
    let by_hand = |work: &dyn Fn()| {
        let start = Instant::now();
        let mut connection = connection.lock();
        assert!(connection.acquire("by hand"));
        let wait = start.elapsed();
        work();
        connection.release("by hand");
        MutexGuard::unlock_fair(connection);
        wait
    };
    let (our, floor) = windows(
        &mut criterion,
        "8 threads, nothing to do",
        &server,
        (&ours(&lock), &by_hand),
        (Duration::ZERO, Duration::ZERO),
    );
    if our.acquired > 0 {
        report_empty(&mut table, &our, &floor);
    }

    let mutex = Mutex::new(());
    let in_process = |work: &dyn Fn()| {
        let start = Instant::now();
        let guard = mutex.lock();
        let wait = start.elapsed();
        work();
        drop(guard);
        wait
    };
    let (our, floor) = windows(
        &mut criterion,
        "8 threads, 2 ms inside, 20 ms outside",
        &server,
        (&ours(&lock), &in_process),
        (HOLD, THINK),
    );
    if our.acquired > 0 {
        report_busy(&mut table, &our, &floor);
    }

    criterion.final_summary();
    table.print();
}

fn report_empty(table: &mut Table, our: &Tally, floor: &Tally) {
    let both = |figure: fn(&Tally) -> String| (figure(our), figure(floor));

    let ratio = our.per_second() / floor.per_second();
    let sides = both(|tally| format!("{:.0}/s", tally.per_second()));
    table.figure("empty: acquisitions", sides, (ratio, " x"), Bound::None);

    let sides = both(|tally| format!("{:.2}", tally.commands_each()));
    let figure = (our.commands_each(), "");
    table.figure(
        "empty: commands an acquisition",
        sides,
        figure,
        Bound::AtMost(2.2),
    );

    let sides = both(|tally| format!("{:.2}", tally.worst_share()));
    let figure = (our.worst_share(), "");
    table.figure(
        "empty: slowest by fastest thread",
        sides,
        figure,
        Bound::AtLeast(0.8),
    );

    let longest = (our.waits.quantile(1.0).as_secs_f64() * 1e3, " ms");
    let waits = (&our.waits, &floor.waits);
    table.times(
        "empty: wait; the longest",
        waits,
        longest,
        Bound::AtMost(100.0),
    );
}

fn report_busy(table: &mut Table, our: &Tally, floor: &Tally) {
    let ratio = our.per_second() / floor.per_second();
    let [ours, floor] = [our, floor].map(|tally| format!("{:.0}/s", tally.per_second()));
    let what = "2 ms in, 20 ms out: acquisitions";
    table.figure(what, (ours, floor), (ratio, " x"), Bound::AtLeast(0.90));
}
